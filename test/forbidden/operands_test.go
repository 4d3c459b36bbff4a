package forbidden

import "testing"

// TestTheOperandsWriteTheRolloutAlone checks that the operands' controller may write the rollout's progress and the states
// of relays, and nothing else in the network's status, whatever its rights.
func TestTheOperandsWriteTheRolloutAlone(t *testing.T) {
	newWorld(t)
	operands := operandsAccount(t)
	const rollout = `"rollout":{"state":"Complete","version":"v1","image":"weft:v1"}`
	allowed(t, operands, []attempt{
		{"a rollout", request{"PATCH", clusterNetwork + "/default/status", status(rollout)}, nil},
		{"another rollout", request{"PATCH", clusterNetwork + "/default/status", status(`"rollout":{"state":"Stopped"}`)}, nil},
		{"relays", request{"PATCH", clusterNetwork + "/default/status",
			status(`"relays":[{"node":"n1","address":"192.0.2.1","state":"Ready"}]`)}, nil},
		{"no relays", request{"PATCH", clusterNetwork + "/default/status", status(`"relays":null`)}, nil},
		{"its finalizer", request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":["network.weft.dev/operands"]}}`}, nil},
		{"all finalizers removed", request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":null}}`}, nil},
		{"a probe of an agent", request{"PATCH", networks + "/n1", annotation("network.weft.dev/probe", `{"id":"a"}`)}, nil},
	})
	refused(t, operands, []attempt{
		{"a condition of a network that is not being deleted", request{"PATCH", clusterNetwork + "/default/status",
			status(conditions("Removing"))}, []string{"ClusterNetwork default", "only while"}},
		{"the deletion of the network", request{"DELETE", clusterNetwork + "/default", ""}, []string{"ClusterNetwork default"}},
		{"another field", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":600`)},
			[]string{"ClusterNetwork default", "only rollout"}},
		{"another field with a rollout", request{"PATCH", clusterNetwork + "/default/status",
			status(rollout + `,"nodesReady":"9/9"`)}, []string{"only rollout"}},
		{"a removed field", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":null`)}, []string{"only rollout"}},
		{"a NodeNetwork's spec", request{"PATCH", networks + "/n1", `{"spec":{"mtu":600}}`}, []string{"NodeNetwork n1"}},
		{"a NodeNetwork's status", request{"PATCH", networks + "/n2/status", status(`"pods":9`)}, []string{"NodeNetwork n2"}},
	})
}
