// Package desired computes the desired state of a node from facts. It has only pure functions, without clients and
// without a clock.
//
//	NodeNetwork.spec, Node ──▶ Registration    ──▶ Open_vSwitch external_ids
//	                       ──▶ IntegrationBridge ─▶ br-int
//	                       ──▶ ManagementPort  ──▶ port ovn-k8s-mp0; host addresses and routes (Host)
//	Port_Binding           ──▶ VIF, Attachment ──▶ port of a pod on br-int
package desired
