// Package policyoracle compares Weft's implementation of network policies with independent implementations.
//
//	random cluster ──▶ Weft's pure functions ──▶ rows ──▶ acl.Decide ─────┐
//	      │                                       └─▶ ovn-northd ─▶ ovn-trace ─ equal?
//	      └──────────▶ the reference: cyclonus' matcher ──────────────────┘
//
// The reference for NetworkPolicy is cyclonus' matcher (github.com/mattfenwick/cyclonus). The reference for
// cluster-wide policies is written from the API's documentation. Neither depends on rows. Where cyclonus differs
// from the documentation of the Kubernetes API, the documentation wins:
//
//   - In cyclonus, a matchLabels entry with an empty value selects objects without the label. According to the
//     documentation it equals an expression with the operator In and this value, and cyclonus gets it in that form.
//   - In cyclonus, NotIn selects no object without the label. According to an example in the documentation of labels,
//     it does. So cyclonus gets objects with every label of the cluster's selectors, where absent labels have a
//     special value, and Exists and DoesNotExist are translated to NotIn and In with that value.
//   - In cyclonus, a pod's port has one name. A pod may give several names to a number, so cyclonus is called for each.
//   - policyTypes may be missing in a manifest. The API server fills them in, and so does the reference; cyclonus panics.
//   - Traffic from a pod's own node, such as kubelet's probes, is always allowed; cyclonus has no nodes.
//
// The comparison leaves out traffic from a pod to itself and to its own node, which the API's documentation does not
// define.
package policyoracle
