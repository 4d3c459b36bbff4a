// Command kubernetes is six programs of Kubernetes in one: the name under which it runs chooses the program. They
// share most of their packages, so one binary links in a sixth of the time that six need, and its pages are in
// memory once.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs has each program's main function by its name; the result is the exit status.
var programs = map[string]func() int{
	"kube-apiserver":          daemon(apiserver.NewAPIServerCommand),
	"kube-controller-manager": daemon(controllers.NewControllerManagerCommand),
	"kube-proxy":              daemon(proxy.NewProxyCommand),
	"kube-scheduler":          daemon(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 daemon(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 kubectl,
}

func daemon(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

// kubectl sets the log level before the command exists, because plugins and .kuberc are read while it is made.
func kubectl() int {
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // an unreadable level is reported when the command parses it
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints and ends with kubectl's own exit status
	}
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	program, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: no program of Kubernetes has this name\n", name)
		os.Exit(2)
	}
	os.Exit(program())
}
