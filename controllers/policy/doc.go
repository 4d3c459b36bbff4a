// Package policy reconciles NetworkPolicies and the cluster-wide policies, whose kinds may appear and disappear, and
// the port groups and address sets of pods that their ACLs name. EgressQoSes, whose rules name such sets, and
// namespaces that request multicast are reconciled here, too.
//
//	NetworkPolicy ─uses─▶ Selectors ─join─▶ the units of the pods that they select name the groups and sets
//	                          │ all of these units do
//	                          ▼
//	                  podgroup/<selector>, podset/<selector>: created with all their elements, in one transaction
//	                          │ exists
//	                          ▼
//	               networkpolicy/<namespace>/<name>: its ACLs, in one transaction
//
// All policies with the same selector share its group or set, which exists while at least one uses it. A new selector
// joins the units of all its pods at once (ovndb.Engine.Join); a pod that is reconciled later names it by itself, in
// the transaction that creates its port. Therefore it does not depend on this package whether a policy applies from a
// pod's first packet.
package policy
