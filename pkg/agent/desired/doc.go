// Package desired computes what a node shall have, from facts: pure functions, no clients, no clock.
//
//	NodeNetwork.spec, Node ──▶ Registration    ──▶ Open_vSwitch external_ids
//	                       ──▶ IntegrationBridge ─▶ br-int
//	                       ──▶ ManagementPort  ──▶ port ovn-k8s-mp0; host addresses and routes (Host)
//	Port_Binding           ──▶ VIF, Attachment ──▶ port of a pod on br-int
package desired
