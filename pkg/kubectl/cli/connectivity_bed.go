package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	utilrand "k8s.io/apimachinery/pkg/util/rand"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

const (
	// agentLabels select the agents' pods. agentContainer runs Weft's image in a node's network.
	agentLabels    = networkv1alpha1.ComponentLabel + "=agent"
	agentContainer = "agent"
	probeContainer = "probe"
)

// bed is the cluster during a check.
type bed struct {
	connectivity.Bed
	*connectivityCommand
	*progress

	target *cluster // whose requests outlive the command's context
	config *rest.Config
	api    client.Client
	core   kubernetes.Interface
	agents map[string]*corev1.Pod // by node
	made   bool                   // the namespace exists
	notes  []string
}

// newBed reads the nodes to test.
func newBed(ctx context.Context, k *connectivityCommand, target *cluster, p *progress) (*bed, error) {
	config, err := target.restConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	api, err := target.watchClient()
	if err != nil {
		return nil, err
	}
	b := &bed{connectivityCommand: k, progress: p, target: target, config: config, api: api, core: core, agents: map[string]*corev1.Pod{},
		notes: []string{}}
	b.Namespace, b.Outside = connectivity.NamespacePrefix+utilrand.String(5), k.outside
	for _, g := range k.skip {
		b.Skip = append(b.Skip, connectivity.Group(g))
	}
	return b, b.readNodes(ctx)
}

// readNodes chooses the nodes of --nodes, or ready nodes with an agent.
func (b *bed) readNodes(ctx context.Context) error {
	var nodes corev1.NodeList
	var agents corev1.PodList
	err := errors.Join(b.api.List(ctx, &nodes), b.api.List(ctx, &agents, client.InNamespace(b.cluster.namespace),
		client.MatchingLabels{networkv1alpha1.ComponentLabel: "agent"}))
	if err != nil {
		return err
	}
	for i := range agents.Items {
		if p := &agents.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			b.agents[p.Spec.NodeName] = p
		}
	}
	var left []string
	for i := range nodes.Items {
		n := &nodes.Items[i]
		named := slices.Contains(b.nodes, n.Name)
		why := b.unfit(n)
		switch {
		case named && why != "":
			return fmt.Errorf("--nodes %s: %s", n.Name, why)
		case why != "":
			b.notes = append(b.notes, fmt.Sprintf("node %s was not tested: %s", n.Name, why))
		case named || len(b.nodes) == 0 && len(b.Nodes) < mostNodes:
			b.Nodes = append(b.Nodes, connectivity.Node{Name: n.Name, Addresses: internalIPs(n)})
		case len(b.nodes) == 0:
			left = append(left, n.Name)
		}
	}
	if len(left) > 0 {
		b.notes = append(b.notes, fmt.Sprintf("%d further nodes were not tested (--nodes selects): %s", len(left), shortened(left)))
	}
	for _, name := range b.nodes {
		if !slices.ContainsFunc(b.Nodes, func(n connectivity.Node) bool { return n.Name == name }) {
			return fmt.Errorf("--nodes %s: there is no such node", name)
		}
	}
	if len(b.Nodes) == 0 {
		return fmt.Errorf("no node is ready and runs an agent (%s) in namespace %s: kubectl weft status shows why, -n selects Weft's "+
			"namespace", agentLabels, b.cluster.namespace)
	}
	return nil
}

// shortened lists the first names.
func shortened(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// unfit returns why a node cannot be tested, or "".
func (b *bed) unfit(n *corev1.Node) string {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case !ready:
		return "it is not ready"
	case b.agents[n.Name] == nil:
		return "it runs no agent of Weft"
	}
	return ""
}

func internalIPs(n *corev1.Node) (found []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			found = append(found, ip)
		}
	}
	return found
}

// imageOf returns Weft's image on a node. The node has it, because its agent runs it.
func (b *bed) imageOf(node string) string {
	for _, c := range b.agents[node].Spec.Containers {
		if c.Name == agentContainer {
			return c.Image
		}
	}
	return ""
}

// set creates the namespace, the pods and the services, and waits until the pods run.
func (b *bed) set(ctx context.Context) error {
	until := time.Now().Add(b.lasting + 2*b.timeout + 5*time.Minute)
	if err := b.api.Create(ctx, connectivity.NewNamespace(b.Namespace, until)); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	b.made = true
	for _, s := range connectivity.NewServices(b.Namespace) {
		if err := b.api.Create(ctx, s); err != nil {
			return fmt.Errorf("create service %s: %w", s.Name, err)
		}
		if s.Name == connectivity.ServiceName {
			b.NodePorts = connectivity.NodePortsOf(s)
			b.ClusterIPs = parsed(s.Spec.ClusterIPs)
		}
	}
	for i, n := range b.Nodes {
		for _, role := range []string{connectivity.SenderLabel, connectivity.GuardedLabel} {
			p := connectivity.NewPod(b.Namespace, role, i, n.Name, b.imageOf(n.Name))
			if err := b.createPod(ctx, p); err != nil {
				return fmt.Errorf("create pod %s: %w", p.Name, err)
			}
		}
	}
	return b.awaitPods(ctx)
}

func parsed(addresses []string) (found []netip.Addr) {
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			found = append(found, a)
		}
	}
	return found
}

// createPod creates a pod. The API server refuses pods until the namespace has its service account.
func (b *bed) createPod(ctx context.Context, p *corev1.Pod) error {
	var failed error
	err := b.until(ctx, func() (bool, error) {
		failed = b.api.Create(ctx, p.DeepCopy())
		if failed != nil && strings.Contains(failed.Error(), "serviceaccount") {
			return false, nil
		}
		return true, failed
	})
	if err == nil && failed != nil {
		return failed // the service account did not come in time
	}
	return err
}

// beat is the time between two reads of a state that is awaited.
const beat = 250 * time.Millisecond

// until calls done until it returns true or an error, or the time is over.
func (b *bed) until(ctx context.Context, done func() (bool, error)) error {
	deadline := time.Now().Add(b.timeout)
	for {
		if ok, err := done(); ok || err != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(beat):
		}
	}
}

// awaitPods waits until all pods run and their servers answer. A pod that does not is recorded with the reason.
func (b *bed) awaitPods(ctx context.Context) error {
	all := 2 * len(b.Nodes)
	err := b.until(ctx, func() (bool, error) {
		var pods corev1.PodList
		if err := b.api.List(ctx, &pods, client.InNamespace(b.Namespace)); err != nil {
			return false, err
		}
		running := 0
		for i := range b.Nodes {
			n := &b.Nodes[i]
			n.A = stateOf(pods.Items, connectivity.PodName(connectivity.SenderLabel, i), n.Name)
			n.B = stateOf(pods.Items, connectivity.PodName(connectivity.GuardedLabel, i), n.Name)
			for _, p := range []connectivity.Pod{n.A, n.B} {
				if p.Why == "" {
					running++
				}
			}
		}
		b.now("%d of %d pods run", running, all)
		return running == all, nil
	})
	if err != nil {
		return err
	}
	if err := b.awaitServers(ctx); err != nil {
		return err
	}
	b.say("pods run on %d nodes, in namespace %s", len(b.Nodes), b.Namespace)
	return b.explainPods(ctx)
}

// awaitServers waits until the servers in the running pods answer. On a busy node a container runs a while before its program
// listens.
func (b *bed) awaitServers(ctx context.Context) error {
	var running []*connectivity.Pod
	for i := range b.Nodes {
		for _, p := range []*connectivity.Pod{&b.Nodes[i].A, &b.Nodes[i].B} {
			if p.Why == "" {
				running = append(running, p)
			}
		}
	}
	return b.until(ctx, func() (bool, error) {
		return allAnswer(running, func(p *connectivity.Pod) error {
			return b.query(ctx, connectivity.Sender{Pod: p.Name, Node: p.Node}, connectivity.FlowRequest{}, &connectivity.Flows{}, "flows")
		}), nil
	})
}

// allAnswer reports whether all pods answer. It notes in each pod why it does not.
func allAnswer(pods []*connectivity.Pod, query func(p *connectivity.Pod) error) bool {
	slots := make(chan struct{}, atATime)
	var running sync.WaitGroup
	for _, p := range pods {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			p.Why = ""
			if err := query(p); err != nil {
				p.Why = "its server does not answer: " + err.Error()
			}
		})
	}
	running.Wait()
	return !slices.ContainsFunc(pods, func(p *connectivity.Pod) bool { return p.Why != "" })
}

// explainPods notes why pods do not run, as "kubectl weft why" says it.
func (b *bed) explainPods(ctx context.Context) error {
	for _, n := range b.Nodes {
		for _, p := range []connectivity.Pod{n.A, n.B} {
			if p.Why == "" {
				continue
			}
			f, err := readWhy(ctx, b.target, b.Namespace+"/"+p.Name)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				first, _, _ := strings.Cut(f.explain(time.Now()).text(), "\n")
				b.notes = append(b.notes, first)
			}
		}
	}
	return nil
}

// stateOf returns the state of a pod.
func stateOf(pods []corev1.Pod, name, node string) connectivity.Pod {
	p := connectivity.Pod{Name: name, Node: node, Why: "it does not exist"}
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	if at < 0 {
		return p
	}
	status := &pods[at].Status
	for _, ip := range status.PodIPs {
		p.Addresses = append(p.Addresses, parsed([]string{ip.IP})...)
	}
	p.Why = "it is " + string(status.Phase)
	for _, s := range status.ContainerStatuses {
		switch {
		case s.State.Running != nil && len(p.Addresses) > 0:
			p.Why = ""
		case s.State.Waiting != nil:
			p.Why = strings.TrimSuffix(s.State.Waiting.Reason+": "+s.State.Waiting.Message, ": ")
		case s.State.Terminated != nil:
			p.Why = "it has ended: " + strings.TrimSpace(s.State.Terminated.Message)
		}
	}
	return p
}
