// Package policy reconciles NetworkPolicies and the policies of the whole cluster, whose kinds come and go, and the port groups and address sets of pods that their ACLs name.
//
//	NetworkPolicy ─uses─▶ Selectors ─asks─▶ Pods that they select ─▶ their units name the groups and sets
//	                          │ all of them have been looked at
//	                          ▼
//	                  podgroup/<selector>, podset/<selector>: made with all that is in them, in one transaction
//	                          │ is there
//	                          ▼
//	               networkpolicy/<namespace>/<name>: its ACLs, in one transaction
//
// A group or set is one for all who use its selector, and is there as long as somebody does. Pods are in it by their own units, from the
// transaction on that makes their port: whether a policy holds from a pod's first packet does not depend on this package.
package policy
