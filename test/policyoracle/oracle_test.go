package policyoracle

import (
	"flag"
	"testing"
)

var (
	flagN    = flag.Int("n", 30000, "number of connections to decide")
	flagSeed = flag.Uint64("seed", 1, "seed of the first cluster")
)

// perCluster is the number of connections decided in each cluster.
const perCluster = 100

// find searches for a difference in clusters with policies.
func find(n int, seed uint64, compile Compiler, policies func(s source, c *Cluster)) (difference *Difference, decided, denied int) {
	for ; decided < n; seed++ {
		s := newSource(seed)
		c := s.cluster()
		policies(s, c)
		tuples := s.tuples(c, perCluster)
		if len(tuples) == 0 {
			continue
		}
		if d := compare(c, compile, tuples); d != nil {
			return smallest(d, compile), decided, denied
		}
		reference := newReference(c)
		for _, t := range tuples {
			if !reference.Allowed(t) {
				denied++
			}
		}
		decided += len(tuples)
	}
	return nil, decided, denied
}

// TestTheOracleItself tests the oracle with a compiler that is too simple to be wrong, and with each of its bugs,
// which the oracle must find.
func TestTheOracleItself(t *testing.T) {
	difference, decided, denied := find(20000, 1, (&naive{}).compile, namespaced)
	if difference != nil {
		t.Fatalf("the two sides differ about %v", difference)
	}
	if denied < decided/5 || denied > decided*4/5 {
		t.Errorf("of %d connections %d were denied: too few or too many to be significant", decided, denied)
	}
	for _, bug := range bugs {
		t.Run(bug, func(t *testing.T) {
			difference, decided, _ := find(20000, 1, (&naive{bug: bug}).compile, namespaced)
			if difference == nil {
				t.Fatalf("not found in %d connections", decided)
			}
			t.Logf("found after %d connections", decided)
			if n := len(difference.Cluster.Policies); n > 2 {
				t.Errorf("a difference of one bug has %d policies:\n%v", n, difference)
			}
		})
	}
}

// namespaced adds NetworkPolicies to a cluster, and ofCluster also ClusterNetworkPolicies.
func namespaced(s source, c *Cluster) { c.Policies = s.policies(c) }

func ofCluster(s source, c *Cluster) {
	namespaced(s, c)
	c.ClusterPolicies = s.clusterPolicies(c)
}

// withAdmins also adds policies of the previous API.
func withAdmins(s source, c *Cluster) {
	ofCluster(s, c)
	c.AdminPolicies, c.BaselinePolicies = s.adminPolicies(c), s.baselinePolicies(c)
}

// TestNetworkPolicies compares Weft with cyclonus.
func TestNetworkPolicies(t *testing.T) { decide(t, namespaced) }

// TestClusterNetworkPolicies compares Weft with the documentation of the API, and cyclonus between its tiers.
func TestClusterNetworkPolicies(t *testing.T) { decide(t, ofCluster) }

// TestAdminNetworkPolicies does the same with AdminNetworkPolicies and BaselineAdminNetworkPolicies among them.
func TestAdminNetworkPolicies(t *testing.T) { decide(t, withAdmins) }

func decide(t *testing.T, policies func(s source, c *Cluster)) {
	difference, decided, denied := find(*flagN, *flagSeed, compile, policies)
	if difference != nil {
		t.Fatalf("after %d connections, in clusters from seed %d: %v", decided, *flagSeed, difference)
	}
	t.Logf("%d connections, %d of them denied, from seed %d: no difference", decided, denied, *flagSeed)
}
