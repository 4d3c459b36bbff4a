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
// The router rt and the hosts behind it are not part of the cluster. They run no daemons and have no routes to pods
// and services.
//
// Each machine (cp, n1, rt, ...) is a set of namespaces whose PID 1 is lab-init (package initd). There is no
// kube-proxy and no CNI except the product's. The lab creates br-ex with the node's addresses; all other Open
// vSwitch configuration is the product's. Without the kernel's openvswitch module the bridges use the userspace
// datapath.
//
// Everything that the lab creates outside its own folder (network namespaces and control groups) is recorded before
// it is created (package state), so that Down works after any kill.
package lab
