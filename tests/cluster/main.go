// SPDX-License-Identifier: Apache-2.0

// kt is every part of a Kubernetes node in one binary. The name it is called
// by, or its first argument, says which.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var parts = map[string]func(){
	"etcd": func() { etcdmain.Main(os.Args) },
	"kube-apiserver": func() {
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	},
	"kube-controller-manager": func() {
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	},
	"kube-scheduler": func() {
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	},
	"kubelet": func() {
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	},
	"kubectl": func() {
		err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())
		if err != nil {
			kubectlutil.CheckErr(err)
		}
	},
}

func main() {
	part := filepath.Base(os.Args[0])
	if parts[part] == nil && len(os.Args) > 1 {
		part = os.Args[1]
		os.Args = append([]string{part}, os.Args[2:]...)
	}
	run := parts[part]
	if run == nil {
		fmt.Fprintln(os.Stderr, "usage: kt etcd|kube-apiserver|"+
			"kube-controller-manager|kube-scheduler|kubelet|kubectl ARGS")
		os.Exit(2)
	}
	run()
}
