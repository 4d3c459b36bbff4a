// Package policyoracle compares what Weft makes of network policies with what somebody else makes of them.
//
//	random cluster ──▶ Weft's pure functions ──▶ rows ──▶ acl.Decide ─────┐
//	      │                                       └─▶ ovn-northd ─▶ ovn-trace ─ equal?
//	      └──────────▶ the reference: cyclonus' matcher ──────────────────┘
//
// The reference for NetworkPolicy is cyclonus' matcher (github.com/mattfenwick/cyclonus), that of the policies of the whole cluster is written from the
// API's documentation, and neither knows rows. Where cyclonus says something else than the documentation of the Kubernetes API, the
// documentation holds:
//
//   - A matchLabels entry whose value is empty selects, in cyclonus, objects without the label. It is the same as an expression with the
//     operator In and this one value, of which the documentation says so, and is given to cyclonus as such.
//   - NotIn selects, in cyclonus, no object without the label. The documentation of labels has the example: it selects those. Cyclonus is
//     asked about objects that have every label of the cluster's selectors, the absent ones with a value of their own, and
//     Exists and DoesNotExist are given to it as NotIn and In of that value.
//   - A port of a pod has, in cyclonus, one name. Pods may give several to one number: it is asked once for each.
//   - policyTypes may be left out of a manifest, which the API server fills in (and cyclonus panics about): so does the reference.
//   - What comes from the node that a pod runs on, kubelet's probes for one, is always let in; cyclonus knows no nodes.
//
// Left out, since the API's documentation leaves it open: what a pod sends to itself, and what it sends to its own node.
package policyoracle
