// Package policy reconciles NetworkPolicies and the cluster-wide policies, whose kinds may appear and disappear, and
// the port groups and address sets of pods that their ACLs name.
//
//	NetworkPolicy ─uses─▶ Selectors ─enqueue─▶ Pods that they select ─▶ their units name the groups and sets
//	                          │ all of them were reconciled
//	                          ▼
//	                  podgroup/<selector>, podset/<selector>: created with all their elements, in one transaction
//	                          │ exists
//	                          ▼
//	               networkpolicy/<namespace>/<name>: its ACLs, in one transaction
//
// All policies with the same selector share its group or set, which exists while at least one uses it. Pods join it by
// their own units, in the transaction that creates their port. Therefore it does not depend on this package whether a
// policy applies from a pod's first packet.
package policy
