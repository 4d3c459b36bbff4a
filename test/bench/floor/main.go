// Command floor is a lower bound for controllers. It gives every pod a port with an address, and does nothing else:
// it has no services, gateways, policies, status, fence or comparison, and expects no other client of the database.
// `make bench` measures it with the operator, so that figures of different machines can be compared as ratios.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// groupSize is the largest number of queued pods in one transaction.
const groupSize = 100

// port and logicalSwitch are the columns that the floor needs.
type port struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Addresses   []string          `ovsdb:"addresses"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type logicalSwitch struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
}

// change is the arrival or removal of a pod, or the arrival of a node.
type change struct {
	key, node string
	gone      bool
	isNode    bool
}

func main() {
	nb := flag.String("nb", "", "comma-separated OVSDB remotes of the northbound database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *nb); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nb string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	w, err := connect(ctx, nb)
	if err != nil {
		return err
	}
	changes := make(chan change, 1<<16)
	if err := watch(ctx, config, changes); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := w.write(ctx, next(ctx, changes)); err != nil {
			return err
		}
	}
	return nil
}

// next waits for a change and returns it with all queued changes.
func next(ctx context.Context, changes <-chan change) (group []change) {
	select {
	case c := <-changes:
		group = append(group, c)
	case <-ctx.Done():
		return nil
	}
	for len(group) < groupSize {
		select {
		case c := <-changes:
			group = append(group, c)
		default:
			return group
		}
	}
	return group
}

// watch reports nodes before pods.
func watch(ctx context.Context, config *rest.Config, changes chan<- change) error {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithTransform(strip))
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()} {
		handled, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { changes <- changeOf(o, false) },
			DeleteFunc: func(o any) {
				if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = unknown.Obj
				}
				changes <- changeOf(o, true)
			},
		})
		if err != nil {
			return err
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
			return ctx.Err()
		}
	}
	return nil
}

// strip keeps only a pod's or node's name and a pod's node.
func strip(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID,
			ResourceVersion: o.ResourceVersion},
			Spec: corev1.PodSpec{NodeName: o.Spec.NodeName}}, nil
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion}}, nil
	}
	return o, nil
}

func changeOf(o any, gone bool) change {
	if pod, ok := o.(*corev1.Pod); ok {
		return change{key: pod.Namespace + "_" + pod.Name, node: pod.Spec.NodeName, gone: gone}
	}
	node, _ := o.(*corev1.Node)
	return change{key: node.Name, isNode: true, gone: gone}
}

// writer is the only client of the database.
type writer struct {
	client   client.Client
	switches map[string]string // node -> UUID of its switch
	ports    map[string]string // port -> UUID
	given    uint32            // number of addresses given
}

func connect(ctx context.Context, nb string) (*writer, error) {
	database, err := model.NewClientDBModel("OVN_Northbound", map[string]model.Model{"Logical_Switch_Port": &port{},
		"Logical_Switch": &logicalSwitch{}})
	if err != nil {
		return nil, err
	}
	var options []client.Option
	for remote := range strings.SplitSeq(nb, ",") {
		options = append(options, client.WithEndpoint(remote))
	}
	c, err := client.NewOVSDBClient(database, append(options, client.WithLeaderOnly(len(options) > 1))...)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	p, s := &port{}, &logicalSwitch{}
	if _, err := c.Monitor(ctx, c.NewMonitor(client.WithTable(p, &p.Name, &p.Addresses, &p.ExternalIDs),
		client.WithTable(s, &s.Name))); err != nil {
		return nil, err
	}
	return load(ctx, c)
}

// load reads the existing rows.
func load(ctx context.Context, c client.Client) (*writer, error) {
	w := &writer{client: c, switches: map[string]string{}, ports: map[string]string{}}
	var switches []logicalSwitch
	var ports []port
	if err := c.List(ctx, &switches); err != nil {
		return nil, err
	}
	if err := c.List(ctx, &ports); err != nil {
		return nil, err
	}
	for _, s := range switches {
		w.switches[s.Name] = s.UUID
	}
	for _, p := range ports {
		w.ports[p.Name] = p.UUID
	}
	w.given = uint32(len(ports))
	return w, nil
}

// write commits one group as one transaction. Rows that exist already cost nothing.
func (w *writer) write(ctx context.Context, group []change) error {
	var ops []ovsdb.Operation
	for _, c := range group {
		more, err := w.operations(c)
		if err != nil {
			return err
		}
		ops = append(ops, more...)
	}
	if len(ops) == 0 {
		return nil
	}
	results, err := w.client.Transact(ctx, ops...)
	if err == nil {
		_, err = ovsdb.CheckOperationResults(results, ops)
	}
	return err
}

func (w *writer) operations(c change) ([]ovsdb.Operation, error) {
	switch {
	case c.isNode && c.gone:
		return nil, nil
	case c.isNode && w.switches[c.key] != "":
		return nil, nil
	case c.isNode:
		s := &logicalSwitch{UUID: uuid.NewString(), Name: c.key}
		w.switches[c.key] = s.UUID
		return w.client.Create(s)
	case c.gone:
		return w.remove(c), nil
	}
	return w.add(c)
}

func (w *writer) add(c change) ([]ovsdb.Operation, error) {
	parent := w.switches[c.node]
	if parent == "" || w.ports[c.key] != "" {
		return nil, nil
	}
	w.given++
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], 10<<24|w.given)
	p := &port{UUID: uuid.NewString(), Name: c.key, ExternalIDs: map[string]string{"pod": "true"},
		Addresses: []string{fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x %s", address[0], address[1], address[2],
			address[3], netip.AddrFrom4(address))}}
	ops, err := w.client.Create(p)
	w.ports[c.key] = p.UUID
	return append(ops, mutate(parent, ovsdb.MutateOperationInsert, p.UUID)), err
}

func (w *writer) remove(c change) []ovsdb.Operation {
	id, parent := w.ports[c.key], w.switches[c.node]
	if id == "" || parent == "" {
		return nil
	}
	delete(w.ports, c.key)
	// The port is not a root row: it is deleted with its last reference.
	return []ovsdb.Operation{mutate(parent, ovsdb.MutateOperationDelete, id)}
}

func mutate(parent string, mutator ovsdb.Mutator, element string) ovsdb.Operation {
	set := ovsdb.OvsSet{GoSet: []any{ovsdb.UUID{GoUUID: element}}}
	return ovsdb.Operation{Op: ovsdb.OperationMutate, Table: "Logical_Switch",
		Where:     []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: parent})},
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("ports", mutator, set)}}
}
