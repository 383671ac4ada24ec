# SPDX-License-Identifier: Apache-2.0
"""The cluster must be up, with its fixtures (up.sh, install.sh); run.sh does
all of it."""

import pytest

import kube
from support import Cluster


@pytest.fixture(scope="session")
def api():
    return kube.Client()


@pytest.fixture
def cluster():
    c = Cluster()
    yield c
    c.clean()
