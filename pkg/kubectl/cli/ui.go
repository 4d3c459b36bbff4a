package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/kubectl/ui"
	"github.com/weft-network/weft/pkg/process/version"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/sketch"
)

const uiLong = `Serve a page about the network for a browser on this machine, until the command is ended.

The page shows problems with their next steps, nodes, networks, pods with their addresses and ports,
addresses of pools, policies and who may reach a pod, the topology, and traces. It follows changes.
It only reads, with your own permissions, and names the permission where one is missing. Nothing in
the cluster listens for it.

The command listens on the loopback interface, on a random port unless --port names one. It prints a
link that opens the page once; after each use it prints another. Other users of the machine cannot
read the page without the link.`

// uiQueries and uiBurst limit the requests of a page to the API server in a second. The lists at the start are many.
const uiQueries, uiBurst = 50, 100

func newUI(target *cluster) *cobra.Command {
	var port uint16
	c := &cobra.Command{
		Use: "ui", Args: noArguments,
		Short: "Serve a page about the network for a browser on this machine",
		Long:  uiLong,
		Example: `  kubectl weft ui
  kubectl weft ui --context production
  kubectl weft ui --port 8377`,
		RunE: func(c *cobra.Command, _ []string) error { return runUI(c, target, port) },
	}
	c.Flags().Uint16Var(&port, "port", 0, "port on the loopback interface; 0: a random port")
	return c
}

func runUI(c *cobra.Command, target *cluster, port uint16) error {
	page, err := target.page()
	if err != nil {
		return err
	}
	listener, err := listenLoopback(c.Context(), port)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	server := ui.New(page, listener.Addr(), func(link string) { printLink(out, "The link was used. For another browser: ", link) })
	printLink(out, "Open ", server.Link(listener.Addr()))
	return server.Serve(c.Context(), listener)
}

func printLink(out io.Writer, text, link string) { fmt.Fprintln(out, text+link) }

// listenLoopback listens on 127.0.0.1, or on ::1 on a machine without IPv4.
func listenLoopback(ctx context.Context, port uint16) (net.Listener, error) {
	var config net.ListenConfig
	number := strconv.Itoa(int(port))
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", number))
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		listener, err = config.Listen(ctx, "tcp", net.JoinHostPort("::1", number))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the loopback interface: %w; --port selects another port", err)
	}
	return listener, nil
}

// page returns what the page shows of the cluster.
func (c *cluster) page() (ui.Cluster, error) {
	config, err := c.restConfig()
	if err != nil {
		return ui.Cluster{}, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme), policyv1alpha1.Install(scheme),
		policyv1alpha2.Install(scheme), cniv1beta1.AddToScheme(scheme), nadv1.AddToScheme(scheme)); err != nil {
		return ui.Cluster{}, err
	}
	config.QPS, config.Burst = uiQueries, uiBurst
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return ui.Cluster{}, err
	}
	name := config.Host
	if raw, err := c.loader().RawConfig(); err == nil && c.overrides.CurrentContext != "" {
		name = c.overrides.CurrentContext
	} else if err == nil && raw.CurrentContext != "" {
		name = raw.CurrentContext
	}
	return ui.Cluster{
		Name: name, Version: version.String(), API: api,
		Status:   func(ctx context.Context) (any, error) { return readStatus(ctx, api, c.namespace, time.Now()) },
		Trace:    c.pageTrace,
		Topology: c.pageTopology,
		Why:      c.pageWhy,
		Explain:  func(err error) error { return explain(c.command, err) },
	}, nil
}

func (c *cluster) pageTrace(ctx context.Context, r ui.TraceRequest) (found ui.Pictured, err error) {
	t := &traceCommand{cluster: c, protocol: r.Protocol, port: r.Port, family: r.Family, node: r.Node, allBackends: r.AllBackends,
		reply: true, output: string(formatJSON)}
	if t.protocol == "" {
		t.protocol = string(trace.TCP)
	}
	if t.protocol == string(trace.ICMP) {
		t.port = "" // the form keeps the port
	}
	if err := t.check(); err != nil {
		return found, err
	}
	a, err := t.answer(ctx, strings.NewReader(""), r.From, r.To)
	if err != nil {
		return found, err
	}
	return ui.Pictured{Answer: a, Picture: sketch.WaysSVG(a.ways())}, nil
}

// largeTopology is the number of pods above which the page shows an overview of the network first.
const largeTopology = 50

func (c *cluster) pageTopology(ctx context.Context, object string) (string, error) {
	e, err := readEnds(ctx, c)
	if err != nil {
		return "", err
	}
	in, err := e.everything(ctx)
	switch {
	case err != nil:
		return "", err
	case object == "" && len(in.Pods) > largeTopology:
		return sketch.Overview(in).SVG(), nil
	case object == "":
		return sketch.Draw(in).SVG(), nil
	}
	g, err := e.around(ctx, in, object)
	return g.SVG(), err
}

func (c *cluster) pageWhy(ctx context.Context, pod string) (any, error) {
	f, err := readWhy(ctx, c, pod)
	if err != nil {
		return nil, err
	}
	return f.explain(time.Now()), nil
}
