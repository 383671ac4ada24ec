# SPDX-License-Identifier: Apache-2.0
"""STANDIN_LAG=MS: what a cluster does by itself comes later, by up to twice
so many milliseconds, each thing by its own: a controller's step, the start and
the end of a pod, garbage collection, the events of a watch. A test that takes
one of them for done when the answer is there, or two for one after the other,
fails then. Without it nothing waits.
"""

import os
import random

LAG_S = float(os.environ.get("STANDIN_LAG") or 0) / 1000


def lag():
    return random.uniform(0, 2 * LAG_S) if LAG_S else 0.0
