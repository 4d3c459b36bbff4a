package policyoracle

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/policyoracle/acl"
)

// Compiler makes a cluster's units: its pods, and the rows of its policies.
type Compiler func(c *Cluster) ([]unit.Unit, error)

// database holds a cluster's rows for decisions.
type database struct {
	cluster *Cluster
	acls    *acl.Database
}

// decide decides about the first packet, or about an open connection that was denied.
func (d *database) decide(t Tuple, blocked bool) (acl.Verdict, error) {
	return d.acls.Decide(acl.Way{From: d.port(t.From), To: d.port(t.To), Packet: acl.Packet{
		Src: t.From.Address, Dst: t.To.Address, Protocol: strings.ToLower(string(t.Protocol)), SrcPort: 33333, DstPort: t.Port,
		Blocked: blocked}})
}

func (d *database) port(e End) string {
	switch {
	case e.Pod >= 0:
		pod := &d.cluster.Pods[e.Pod]
		return names.PodPort(names.DefaultNetwork, pod.Namespace, pod.Name)
	case e.Node >= 0:
		return names.ManagementPort(d.cluster.Nodes[e.Node].Name)
	}
	return ""
}

// Difference is a connection that the two sides decide differently.
type Difference struct {
	Cluster *Cluster
	Tuple   Tuple
	Blocked bool // it is about an open connection
	Want    bool
	Got     acl.Verdict
	Err     error
}

func (d *Difference) String() string {
	got := fmt.Sprintf("allowed %v (%s)", d.Got.Allowed, d.Got.Why)
	if d.Err != nil {
		got = d.Err.Error()
	}
	return fmt.Sprintf("%s, blocked before %v: the rows: %s; the reference: allowed %v\n%s", d.Cluster.Text(d.Tuple), d.Blocked, got,
		d.Want, d.Cluster.yaml(d.Tuple))
}

// compare decides each tuple on both sides, and returns the first difference. An open connection that was denied is
// decided like a new one.
func compare(c *Cluster, compile Compiler, tuples []Tuple) *Difference {
	units, err := compile(c)
	if err != nil {
		return &Difference{Cluster: c, Tuple: tuples[0], Err: err}
	}
	acls, err := acl.New(units)
	if err != nil {
		return &Difference{Cluster: c, Tuple: tuples[0], Err: err}
	}
	db, reference := &database{c, acls}, newReference(c)
	for _, t := range tuples {
		want := reference.Allowed(t)
		for _, blocked := range []bool{false, true} {
			if got, err := db.decide(t, blocked); err != nil || got.Allowed != want {
				return &Difference{c, t, blocked, want, got, err}
			}
		}
	}
	return nil
}

// smallest shrinks the cluster of a difference.
func smallest(d *Difference, compile Compiler) *Difference {
	tuples := []Tuple{d.Tuple}
	least := shrink(d.Cluster, func(c *Cluster) bool {
		other := compare(c, compile, tuples)
		return other != nil && (other.Err == nil) == (d.Err == nil)
	})
	return compare(least, compile, tuples)
}

// yaml writes the policies and the objects of the tuple.
func (c *Cluster) yaml(t Tuple) string {
	var parts []string
	add := func(object any) {
		text, err := yaml.Marshal(object)
		if err != nil {
			text = []byte(err.Error())
		}
		parts = append(parts, string(text))
	}
	for _, e := range []End{t.From, t.To} {
		if e.Pod >= 0 {
			add(c.namespace(c.Pods[e.Pod].Namespace))
			add(c.Pods[e.Pod])
		}
	}
	for i := range c.Policies {
		add(c.Policies[i])
	}
	for _, policy := range c.clusterPolicies() {
		add(policy)
	}
	return strings.Join(parts, "---\n")
}
