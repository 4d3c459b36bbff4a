// Package lab is a Kubernetes cluster on one machine, made of namespaces: real API server, kubelets, containerd, Open
// vSwitch and OVN, with real packets between the nodes. It needs root, and no container engine, registry or kernel module.
//
//	out .10   198.51.100.0/24, 2001:db8:100::/64 ┐
//	far .10   203.0.113.0/24, 2001:db8:200::/64  ┴ rt
//	          (MTU 1300)                           │ eth0 .1
//	           netns NAME-fab: Linux bridge, 172.30.0.0/24, fd00:172:30::/64
//	     ┌───────────────────────────┼───────────────────────────┐
//	cp  eth0 .10                n1  eth0                     n2  eth0
//	    etcd, kube-apiserver        └ br-ex .11                  └ br-ex .12
//	    kube-controller-manager     ovsdb-server, ovs-vswitchd   (as n1)
//	    kube-scheduler              ovn-controller
//	    OVN NB and SB, by TLS       containerd, kubelet
//	    ovn-northd                  pods
//
// The router rt and the hosts behind it are not the cluster's: they have no daemons and know nothing of pods and services.
//
// Each machine (cp, n1, rt, ...) is a set of namespaces whose PID 1 is lab-init (package initd). There is no kube-proxy and no
// other CNI than the product's. The lab makes br-ex with the node's addresses; all other Open vSwitch configuration is the
// product's. Without the kernel's openvswitch module the bridges use the userspace datapath.
//
// What is made outside the lab's own folder (network namespaces and control groups) is on record before it is made (package
// state), so that Down works after any kill.
package lab
