package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/process/admin"
)

// databaseCluster reads the cluster's objects for a rebuild.
type databaseCluster struct {
	api     client.Client
	cluster *cluster
}

// newDatabaseCluster returns a databaseCluster whose requests outlive a signal, because a rebuild undoes its changes
// after a signal.
func newDatabaseCluster(of *cluster) (*databaseCluster, error) {
	own := *of
	own.command = context.Background()
	c := &own
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	return &databaseCluster{api, c}, err
}

// Chassis implements rebuild.Kubernetes.
func (c *databaseCluster) Chassis(ctx context.Context) ([]beside.Chassis, error) {
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(c.api.List(ctx, &nodes), c.api.List(ctx, &networks)); err != nil {
		return nil, err
	}
	return chassisOf(nodes.Items, c.own(networks.Items)), nil
}

// own returns the nodes of the zone whose databases are rebuilt.
func (c *databaseCluster) own(networks []networkv1alpha1.NodeNetwork) []networkv1alpha1.NodeNetwork {
	return slices.DeleteFunc(networks, func(nn networkv1alpha1.NodeNetwork) bool { return string(nn.Spec.Zone) != c.cluster.zone })
}

// chassisOf returns the chassis of the nodes whose agents have reported.
func chassisOf(nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) []beside.Chassis {
	alive := map[string]bool{} // node -> its kubelet reports
	for i := range nodes {
		for _, condition := range nodes[i].Status.Conditions {
			if condition.Type == corev1.NodeReady {
				alive[nodes[i].Name] = condition.Status != corev1.ConditionUnknown
			}
		}
	}
	var all []beside.Chassis
	for i := range networks {
		if s := networks[i].Status; s.Chassis != "" && s.EncapIP != "" {
			all = append(all, beside.Chassis{Name: s.Chassis, Hostname: networks[i].Name, EncapType: encapsulation(s.EncapType),
				EncapIP: string(s.EncapIP), Alive: alive[networks[i].Name]})
		}
	}
	return all
}

// encapsulation returns OVN's name of a tunnel protocol.
func encapsulation(t networkv1alpha1.EncapsulationType) string {
	if t == "" {
		t = networkv1alpha1.EncapsulationGeneve
	}
	return strings.ToLower(string(t))
}

// Ports implements rebuild.Kubernetes.
func (c *databaseCluster) Ports(ctx context.Context) ([]string, error) {
	var pods corev1.PodList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(c.api.List(ctx, &pods), c.api.List(ctx, &networks)); err != nil {
		return nil, err
	}
	elsewhere := map[string]bool{}
	for i := range networks.Items {
		elsewhere[networks.Items[i].Name] = string(networks.Items[i].Spec.Zone) != c.cluster.zone
	}
	return portsOf(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return elsewhere[p.Spec.NodeName] })), nil
}

// portsOf returns the ports of the pods that have an address of the network and have not ended.
func portsOf(pods []corev1.Pod) []string {
	var ports []string
	for i := range pods {
		p := &pods[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !p.Spec.HostNetwork && !ended && len(p.Status.PodIPs) > 0 {
			ports = append(ports, names.PodPort(names.DefaultNetwork, p.Namespace, p.Name))
		}
	}
	return ports
}

// InSync implements rebuild.Kubernetes.
func (c *databaseCluster) InSync(ctx context.Context) error {
	leader, err := c.cluster.findOperator(ctx)
	if err != nil {
		return err
	}
	text, err := leader.admin(ctx, nil, "drift")
	if err != nil {
		return fmt.Errorf("cannot read the operator's drift: %w", err)
	}
	var drift admin.Changes
	if err := json.Unmarshal(text, &drift); err != nil {
		return fmt.Errorf("cannot parse the operator's drift: %w", err)
	}
	if len(drift.Changes) > 0 {
		first := drift.Changes[0]
		return fmt.Errorf("the northbound database differs from the desired state in %d places; the first is a row of %s in table %s",
			len(drift.Changes), first.Owner, first.Table)
	}
	return nil
}
