package policyoracle

import (
	"flag"
	"testing"
)

var (
	flagN    = flag.Int("n", 100000, "how many connections to decide about")
	flagSeed = flag.Uint64("seed", 1, "of the first cluster")
)

// perCluster is how many connections each cluster is asked about.
const perCluster = 100

// find looks for a difference in clusters with policies.
func find(n int, seed uint64, compile Compiler, policies func(s source, c *Cluster)) (difference *Difference, asked, denied int) {
	for ; asked < n; seed++ {
		s := newSource(seed)
		c := s.cluster()
		policies(s, c)
		tuples := s.tuples(c, perCluster)
		if len(tuples) == 0 {
			continue
		}
		if d := compare(c, compile, tuples); d != nil {
			return smallest(d, compile), asked, denied
		}
		reference := newReference(c)
		for _, t := range tuples {
			if !reference.Allowed(t) {
				denied++
			}
		}
		asked += len(tuples)
	}
	return nil, asked, denied
}

// TestTheOracleItself tries it with a compiler that is too simple to be wrong, and with that one's bugs, each of which it must find.
func TestTheOracleItself(t *testing.T) {
	difference, asked, denied := find(20000, 1, (&naive{}).compile, namespaced)
	if difference != nil {
		t.Fatalf("the two sides differ about %v", difference)
	}
	if denied < asked/5 || denied > asked*4/5 {
		t.Errorf("of %d connections %d were denied: that decides little", asked, denied)
	}
	for _, bug := range bugs {
		t.Run(bug, func(t *testing.T) {
			difference, asked, _ := find(20000, 1, (&naive{bug: bug}).compile, namespaced)
			if difference == nil {
				t.Fatalf("not found in %d connections", asked)
			}
			t.Logf("found after %d connections", asked)
			if n := len(difference.Cluster.Policies); n > 2 {
				t.Errorf("a difference of one bug has %d policies:\n%v", n, difference)
			}
		})
	}
}

// namespaced adds NetworkPolicies to a cluster, ofCluster ClusterNetworkPolicies too.
func namespaced(s source, c *Cluster) { c.Policies = s.policies(c) }

func ofCluster(s source, c *Cluster) {
	namespaced(s, c)
	c.ClusterPolicies = s.clusterPolicies(c)
}

// withAdmins adds those of the API before as well.
func withAdmins(s source, c *Cluster) {
	ofCluster(s, c)
	c.AdminPolicies, c.BaselinePolicies = s.adminPolicies(c), s.baselinePolicies(c)
}

// TestNetworkPolicies compares Weft with cyclonus.
func TestNetworkPolicies(t *testing.T) { decide(t, namespaced) }

// TestClusterNetworkPolicies compares Weft with the documentation of the API, and cyclonus between its tiers.
func TestClusterNetworkPolicies(t *testing.T) { decide(t, ofCluster) }

// TestAdminNetworkPolicies does so with AdminNetworkPolicies and BaselineAdminNetworkPolicies among them.
func TestAdminNetworkPolicies(t *testing.T) { decide(t, withAdmins) }

func decide(t *testing.T, policies func(s source, c *Cluster)) {
	difference, asked, denied := find(*flagN, *flagSeed, compile, policies)
	if difference != nil {
		t.Fatalf("after %d connections, in clusters from seed %d: %v", asked, *flagSeed, difference)
	}
	t.Logf("%d connections, %d of them denied, from seed %d: no difference", asked, denied, *flagSeed)
}
