package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/kubectl/capture/pcaptext"
)

const (
	captureProgram = "/usr/bin/weft-capture"
	// longestCapture bounds --for, so that a forgotten command does not run on a node for days.
	longestCapture = time.Hour
	// fewestBytes of a packet have its headers.
	fewestBytes = 64
)

// captureProtocols are the names of protocols that a capture can select.
var captureProtocols = []string{"arp", "icmp", "sctp", "tcp", "udp"}

// captureOptions holds the flags of the command capture.
type captureOptions struct {
	link     string
	lasting  time.Duration
	packets  int
	bytes    int
	protocol string
	host     string
	port     uint16
	file     string
}

func newCapture(target *cluster) *cobra.Command {
	var o captureOptions
	c := &cobra.Command{Use: "capture POD", Short: "Record the packets at a pod's interface",
		Long: `Record the packets that a pod sends and receives, in both directions: a line for each packet, or a pcap
file with --write. The packets are recorded at the host's end of the interface, on the pod's node: what a
pod sends is shown before policies decide about it, and what it receives after that.

It requires permission for "kubectl exec" in the agent's pod. On the node it ends by itself after --for, or
after --packets. Nothing is stored on the node.

Exit codes: 0 the packets were recorded, 2 an error.`,
		Example: `  kubectl weft capture demo/web-0 --port 8080
  kubectl weft capture demo/web-0 --for 5m --write web-0.pcap
  kubectl weft capture demo/web-0 --interface net1 -w - | wireshark -k -i -`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want one argument, NAMESPACE/POD, not %d: %s", len(args), c.UseLine())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("port") && o.port == 0 {
				return errors.New("--port 0: want a number from 1 to 65535")
			}
			return runCapture(c, target, o, args[0])
		},
		ValidArgsFunction: target.completing(1, completion.pods),
	}
	c.Flags().StringVar(&o.link, "interface", "eth0", "the interface in the pod: eth0, or one of a Network")
	c.Flags().DurationVar(&o.lasting, "for", 30*time.Second, "record for this long, at most an hour")
	c.Flags().IntVar(&o.packets, "packets", 10_000, "end after this many packets")
	c.Flags().IntVar(&o.bytes, "bytes", 65535, "record this many bytes of each packet, 64 to 65535")
	c.Flags().StringVar(&o.protocol, "protocol", "", "only packets of this protocol: arp, icmp, sctp, tcp or udp")
	c.Flags().StringVar(&o.host, "host", "", "only packets from or to this address")
	c.Flags().Uint16Var(&o.port, "port", 0, "only packets from or to this port")
	c.Flags().StringVarP(&o.file, "write", "w", "", "write a pcap file; - is standard output")
	completeWords(c, "protocol", captureProtocols...)
	return c
}

func (o captureOptions) check() error {
	switch {
	case o.lasting > longestCapture:
		return fmt.Errorf("--for %s: want at most %s", o.lasting, longestCapture)
	case o.packets <= 0:
		return fmt.Errorf("--packets %d: want more than 0", o.packets)
	case o.bytes < fewestBytes || o.bytes > math.MaxUint16:
		return fmt.Errorf("--bytes %d: want %d to %d", o.bytes, fewestBytes, math.MaxUint16)
	case o.protocol != "" && !slices.Contains(captureProtocols, o.protocol):
		return fmt.Errorf("--protocol %q: want one of %s", o.protocol, strings.Join(captureProtocols, ", "))
	case o.port != 0 && (o.protocol == "arp" || o.protocol == "icmp"):
		return fmt.Errorf("--port %d: packets of --protocol %s have no ports", o.port, o.protocol)
	case o.host != "" && o.protocol == "arp":
		return errors.New("--host does not select packets of --protocol arp")
	}
	if _, err := netip.ParseAddr(o.host); o.host != "" && err != nil {
		return fmt.Errorf("--host %q: want an address, such as 10.244.0.5", o.host)
	}
	return positive("for", o.lasting)
}

// command returns the program that records on the pod's node.
func (o captureOptions) command(pod *corev1.Pod) []string {
	command := []string{captureProgram, "--pod-uid=" + networkv1alpha1.InterfaceUID(pod), "--interface=" + o.link,
		"--for=" + o.lasting.String(), "--packets=" + strconv.Itoa(o.packets), "--bytes=" + strconv.Itoa(o.bytes)}
	for flag, value := range map[string]string{"--protocol=": o.protocol, "--host=": o.host} {
		if value != "" {
			command = append(command, flag+value)
		}
	}
	if o.port != 0 {
		command = append(command, "--port="+strconv.Itoa(int(o.port)))
	}
	return command
}

func runCapture(c *cobra.Command, target *cluster, o captureOptions, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	pod, agent, err := findRecorder(c.Context(), target, strings.TrimPrefix(name, "pod/"))
	if err != nil {
		return err
	}
	record := func(out io.Writer) error {
		notes, err := agent.stream(c.Context(), agentContainer, nil, out, o.command(pod)...)
		if notes != "" {
			fmt.Fprintln(c.ErrOrStderr(), notes)
		}
		if c.Context().Err() != nil {
			return nil // the user has seen enough
		}
		return err
	}
	switch o.file {
	case "":
		return printed(record, c.OutOrStdout())
	case "-":
		return record(c.OutOrStdout())
	}
	return saved(record, o.file)
}

// printed writes what is recorded as text.
func printed(record func(io.Writer) error, out io.Writer) error {
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := pcaptext.Print(read, out)
		read.CloseWithError(err) // the recording ends if the output does
		ended <- err
	}()
	err := record(write)
	write.Close()
	return errors.Join(err, <-ended)
}

// saved writes what is recorded to a file. A recording that fails before its first byte leaves no file.
func saved(record func(io.Writer) error, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = errors.Join(record(file), file.Sync())
	if info, failed := file.Stat(); err != nil && failed == nil && info.Size() == 0 {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, file.Close())
}

// findRecorder returns a pod, and the pod of the agent on its node.
func findRecorder(ctx context.Context, target *cluster, name string) (*corev1.Pod, *inPod, error) {
	config, err := target.restConfig()
	if err != nil {
		return nil, nil, err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	api, err := target.watchClient()
	if err != nil {
		return nil, nil, err
	}
	namespace, err := target.contextNamespace()
	if err != nil {
		return nil, nil, err
	}
	key := (&ends{namespace: namespace}).key(strings.Split(name, "/"))
	if strings.Contains(key.Name, "/") || key.Name == "" || key.Namespace == "" {
		return nil, nil, fmt.Errorf("%q: want NAMESPACE/POD", name)
	}
	var pod corev1.Pod
	if err := api.Get(ctx, key, &pod); apierrors.IsNotFound(err) {
		return nil, nil, noPod(key)
	} else if err != nil {
		return nil, nil, err
	}
	switch {
	case pod.Spec.HostNetwork:
		return nil, nil, fmt.Errorf("pod %s uses the network of its node, and has no interface of its own", key)
	case pod.Spec.NodeName == "":
		return nil, nil, fmt.Errorf("pod %s is on no node yet: kubectl weft why %s shows what it waits for", key, key)
	}
	agent, err := agentOn(ctx, api, target.namespace, pod.Spec.NodeName)
	if err != nil {
		return nil, nil, err
	}
	return &pod, &inPod{config, core, agent}, nil
}

// agentOn returns the running agent of a node.
func agentOn(ctx context.Context, api client.Client, namespace, node string) (*corev1.Pod, error) {
	var agents corev1.PodList
	if err := api.List(ctx, &agents, client.InNamespace(namespace),
		client.MatchingLabels{networkv1alpha1.ComponentLabel: networkv1alpha1.ComponentAgent}); err != nil {
		return nil, err
	}
	for i := range agents.Items {
		if p := &agents.Items[i]; p.Spec.NodeName == node && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("namespace %s has no running agent on node %s: kubectl weft status shows why, and -n selects Weft's namespace",
		namespace, node)
}
