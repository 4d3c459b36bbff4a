package ui

import (
	"fmt"
	"time"
)

// The size of the cluster.
const (
	nodeCount = 100
	podCount  = 5000
)

func meta(namespace, name string) map[string]any {
	m := map[string]any{"name": name, "uid": namespace + "-" + name, "creationTimestamp": "2026-01-02T03:04:05Z"}
	if namespace != "" {
		m["namespace"] = namespace
	}
	return m
}

func condition(kind, state, message string) object {
	return object{"type": kind, "status": state, "reason": "Reported",
		"message": message, "lastTransitionTime": "2026-01-02T03:04:05Z"}
}

// fill gives the API server a large cluster with a problem.
func (s *apiServer) fill() { s.fillWith(nodeCount, podCount) }

// fillWith gives the API server a cluster with a problem. Two of the pods are in the namespace demo.
func (s *apiServer) fillWith(nodes, pods int) {
	for _, name := range []string{"demo", "shop", "batch", "monitoring", "weft-system"} {
		m := meta("", name)
		m["labels"] = map[string]any{"kubernetes.io/metadata.name": name}
		s.put("namespaces", object{"metadata": m})
	}
	for i := 1; i <= nodes; i++ {
		s.put("nodes", object{"metadata": meta("", nodeName(i)), "status": object{"addresses": []object{{"type": "InternalIP",
			"address": nodeAddress(i)}}}})
		s.put("nodenetworks", nodeNetwork(i))
	}
	for i := range pods - 2 {
		s.put("pods", pod([]string{"shop", "batch",
			"monitoring"}[i%3], fmt.Sprintf("worker-%d", i), i%nodes+1, 10+i/nodes, "worker"))
	}
	web := pod("demo", "web", 1, 3, "web")
	web.meta()["annotations"] = map[string]any{"k8s.v1.cni.cncf.io/network-status": `[{"name":"default","interface":"eth0","default":true},
		{"name":"demo/storage","interface":"net1","mac":"0a:58:c0:a8:78:09","ips":["192.168.120.9"]}]`}
	s.put("pods", web)
	s.put("pods", pod("demo", "client", 1, 5, "client"))
	s.outside()
	s.services()
	s.policies()
	s.pools()
	s.system()
	s.put("clusternetworks", clusterNetwork(true))
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

func nodeAddress(i int) string { return fmt.Sprintf("172.18.0.%d", i+10) }

func nodeNetwork(i int) object {
	o := object{"metadata": meta("", nodeName(i)),
		"spec": object{"nodeID": i, "podSubnets": []string{fmt.Sprintf("10.244.%d.0/24", i-1), fmt.Sprintf("fd00:10:244:%x::/64", i)},
			"managementPort": object{"macAddress": fmt.Sprintf("0a:58:0a:f4:%02x:02", i-1),
				"addresses": []string{fmt.Sprintf("10.244.%d.2/24", i-1)}},
			"joinAddresses": []string{fmt.Sprintf("100.64.0.%d/16", i+1)}, "clusterSubnets": []string{"10.244.0.0/16"}},
		"status": object{"chassis": "chassis-" + nodeName(i), "encapIP": nodeAddress(i), "pods": podCount / nodeCount,
			"addresses": object{"total": 250, "used": podCount / nodeCount, "free": 250 - podCount/nodeCount},
			"gateway": object{"mode": "Shared", "uplink": "Bridge", "bridge": "br-ex",
				"macAddress": fmt.Sprintf("02:42:ac:12:00:%02x", i+10),
				"addresses":  []string{nodeAddress(i) + "/24"}, "nextHops": []string{"172.18.0.1"}},
			"conditions": []object{condition("Ready", "True", "all checks pass")}}}
	if i == nodeCount {
		o["status"].(object)["conditions"] = []object{condition("Ready", "False", "Open vSwitch does not answer")}
		o["status"].(object)["problems"] = []object{nodeProblem()}
	}
	return o
}

func nodeProblem() object {
	return object{"area": "NodesAndPods", "state": "Unavailable", "reason": "OVSUnavailable",
		"object":   "NodeNetwork/" + nodeName(nodeCount),
		"message":  "Open vSwitch does not answer: connection refused",
		"nextStep": "see ovs-vswitchd on the node: /var/log/openvswitch"}
}

func pod(namespace, name string, node, last int, app string) object {
	m := meta(namespace, name)
	m["labels"] = map[string]any{"app": app}
	ips := []object{{"ip": fmt.Sprintf("10.244.%d.%d", node-1, last)}, {"ip": fmt.Sprintf("fd00:10:244:%x::%x", node, last)}}
	if namespace == "demo" { // as in the output of ovn-trace
		ips[1] = object{"ip": fmt.Sprintf("fd00:10:244::%x", last)}
	}
	return object{"metadata": m, "spec": object{"nodeName": nodeName(node),
		"containers": []object{{"name": "c", "image": "registry.example/app", "ports": []object{{"name": "http",
			"containerPort": 8080,
			"protocol":      "TCP"}}}}},
		"status": object{"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips,
			"conditions": []object{condition("PodReadyToStartContainers", "True", ""), condition("Ready", "True", "")}}}
}

func (s *apiServer) services() {
	for i := range 200 {
		s.put("services", service("shop", fmt.Sprintf("service-%d", i), fmt.Sprintf("10.96.1.%d", i+1)))
	}
	s.put("services", service("demo", "web", "10.96.0.10"))
	s.put("endpointslices", object{"metadata": map[string]any{"namespace": "demo", "name": "web-1",
		"labels": map[string]any{"kubernetes.io/service-name": "web"}},
		"addressType": "IPv4", "ports": []object{{"name": "", "port": 8080, "protocol": "TCP"}},
		"endpoints": []object{{"addresses": []string{"10.244.0.3"}, "nodeName": "n1", "conditions": object{"ready": true},
			"targetRef": object{"kind": "Pod", "namespace": "demo", "name": "web"}}}})
}

func service(namespace, name, address string) object {
	return object{"metadata": meta(namespace, name), "spec": object{"type": "ClusterIP", "clusterIP": address,
		"clusterIPs": []string{address},
		"selector":   map[string]any{"app": "web"}, "ports": []object{{"port": 80, "protocol": "TCP", "targetPort": 8080}}}}
}

func (s *apiServer) policies() {
	selector := func(app string) object { return object{"matchLabels": map[string]any{"app": app}} }
	s.put("networkpolicies", object{"metadata": meta("demo", "web"), "spec": object{"podSelector": selector("web"),
		"policyTypes": []string{"Ingress"},
		"ingress": []object{{"from": []object{{"podSelector": selector("client")}}, "ports": []object{{"protocol": "TCP",
			"port": 8080}}},
			{"from": []object{{"namespaceSelector": object{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "monitoring"}}}},
				"ports": []object{{"protocol": "TCP", "port": "http"}}}}}})
	s.put("networkpolicies", object{"metadata": meta("shop", "deny-all"), "spec": object{"podSelector": object{},
		"policyTypes": []string{"Ingress", "Egress"}}})
	s.put("clusternetworkpolicies", object{"metadata": meta("", "no-batch"), "spec": object{"tier": "Admin", "priority": 10,
		"subject": object{"namespaces": object{}}, "ingress": []object{{"name": "batch", "action": "Deny",
			"from": []object{{"namespaces": object{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "batch"}}}}}}}})
}

func (s *apiServer) pools() {
	s.put("networks", object{"metadata": meta("", "storage"), "spec": object{"topology": "Localnet",
		"physicalNetwork": "storage",
		"vlan":            120,
		"subnets":         []object{{"cidr": "192.168.120.0/24"}}}, "status": object{"attachments": 12,
		"conditions": []object{condition("Ready", "True", "in force on 100 nodes")}}})
	s.put("network-attachment-definitions", object{"metadata": meta("demo", "storage"),
		"spec": object{"config": `{"type":"weft-cni","network":"storage"}`}})
	s.put("ippools", object{"metadata": meta("", "public"), "spec": object{"location": "NAT",
		"ranges": []object{{"addresses": "203.0.113.10-203.0.113.99"}}},
		"status": object{"total": 90, "used": 1, "kept": 1, "conditions": []object{condition("Ready", "True",
			"88 addresses are free")}}})
	for i, uid := range []string{"demo-web", ""} {
		address := fmt.Sprintf("203.0.113.%d", 10+i)
		s.put("floatingips", object{"metadata": meta("", address), "spec": object{"address": address, "pool": "public",
			"holder": object{"apiVersion": "apps/v1", "kind": "StatefulSet", "namespace": "demo", "name": "web", "pod": "web",
				"podUID": uid, "node": "n1",
				"releasePolicy": "Immutable", "since": "2026-01-02T03:04:05Z"}}})
	}
}

// outside is what connects the cluster with other networks.
func (s *apiServer) outside() {
	demo := object{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "demo"}}
	s.put("egressips", object{"metadata": meta("", "demo"), "spec": object{"egressIPs": []string{"172.18.0.200"},
		"namespaceSelector": demo},
		"status": object{"items": []object{{"egressIP": "172.18.0.200", "node": "n2"}},
			"conditions": []object{condition("Assigned", "True", "each address is assigned to a node")}}})
	s.put("externalroutes", object{"metadata": meta("", "backup"), "spec": object{"namespaceSelector": demo,
		"podSelector": object{"matchLabels": map[string]any{"app": "backup"}},
		"nextHops":    object{"static": []object{{"address": "172.18.0.254"}}}},
		"status": object{"nextHops": []object{{"address": "172.18.0.254"}}, "conditions": []object{condition("Ready",
			"True", "routers in use: 1")}}})
	s.put("egressfirewalls", object{"metadata": meta("demo", "default"), "spec": object{"egress": []object{
		{"type": "Allow", "to": object{"dnsName": "www.example.com"}, "ports": []object{{"protocol": "TCP", "port": 443}}},
		{"type": "Deny", "to": object{"cidrSelector": "0.0.0.0/0"}}}},
		"status": object{"conditions": []object{condition("Ready", "True", "2 rules")}}})
	s.put("egressqoses", object{"metadata": meta("shop", "default"),
		"spec":   object{"egress": []object{{"dscp": 46, "dstCIDR": "192.0.2.0/24"}}},
		"status": object{"conditions": []object{condition("Ready", "True", "1 rule")}}})
	s.put("loadbalancerpools", object{"metadata": meta("", "office"),
		"spec": object{"addresses": []string{"172.18.0.210-172.18.0.219"},
			"loadBalancerClass": "weft.dev/load-balancer"},
		"status": object{"total": 10, "used": 1, "free": 9, "inUse": []string{"172.18.0.210"},
			"announcements": []object{{"address": "172.18.0.210", "node": "n1"}}, "conditions": []object{condition("Ready",
				"True", "9 addresses are free")}}})
	s.put("bgppeers", object{"metadata": meta("", "router"), "spec": object{"peerAddress": "172.18.0.1",
		"peerASN": 64512, "myASN": 64513},
		"status": object{"nodes": 3, "established": 3, "conditions": []object{condition("Established", "True",
			"3 of 3 nodes have a session")}}})
	s.put("bgpadvertisements", object{"metadata": meta("", "all"), "spec": object{"podSubnets": true, "loadBalancers": object{}},
		"status": object{"prefixes": 4, "nodes": 2, "conditions": []object{condition("Advertised", "True",
			"2 nodes announce 4 prefixes")}}})
	s.put("multi-networkpolicies", object{"metadata": meta("demo", "storage"), "spec": object{"podSelector": object{},
		"policyTypes": []string{"Ingress"}}})
	s.put("events", object{"metadata": meta("demo", "late.1"), "involvedObject": object{"kind": "Pod",
		"namespace": "demo", "name": "late"},
		"reason": "FailedNetworkAttachment", "message": "Network storage has no free address", "type": "Warning",
		"reportingComponent": "weft",
		"lastTimestamp":      "2026-01-02T03:05:00Z"})
}

// system is Weft's own pods and lease.
func (s *apiServer) system() {
	for name, component := range map[string]string{"weft-operator-0": "operator", "weft-central-0": "central"} {
		o := pod("weft-system", name, 1, 0, component)
		o.meta()["labels"] = map[string]any{"app.kubernetes.io/component": component, "network.weft.dev/component": component}
		o["spec"].(object)["hostNetwork"] = true
		o["status"].(object)["podIPs"] = []object{{"ip": nodeAddress(1)}}
		container := map[string]string{"operator": "operator", "central": "northd"}[component]
		o["status"].(object)["containerStatuses"] = []object{{"name": container, "ready": true,
			"state": object{"running": object{"startedAt": "2026-01-02T03:04:05Z"}}}}
		s.put("pods", o)
	}
	s.put("leases", object{"metadata": meta("weft-system", "weft-operator"),
		"spec": object{"holderIdentity": "weft-system-weft-operator-0",
			"renewTime": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")}})
}

// clusterNetwork has a problem, or is healthy.
func clusterNetwork(problem bool) object {
	area := func(name, state, message string) object {
		return object{"name": name, "state": state, "message": message}
	}
	nodes, ready, problems := area("NodesAndPods", "Available", "100 nodes are ready"), "True", []object{}
	if problem {
		nodes, ready, problems = area("NodesAndPods", "Unavailable", "node n100: Open vSwitch does not answer"),
			"False", []object{nodeProblem()}
	}
	return object{"metadata": meta("", "default"), "spec": object{"clusterNetwork": []object{{"cidr": "10.244.0.0/16",
		"hostPrefix": 24}},
		"zones": []object{{"name": "east", "nodeSelector": object{"zone": "east"}}}},
		"status": object{"zones": []object{{"name": "east", "node": "n1", "addresses": []string{nodeAddress(1)},
			"ready": true}}, "problems": problems, "areas": []object{area("ControlPlane", "Available",
			"the operator leads and the databases are connected"),
			nodes, area("Services", "Available", "201 services are balanced"), area("Policies", "Available",
				"3 policies are in force")},
			"conditions": []object{condition("Ready", ready, ""), condition("Available", ready, "")},
			"versions":   []object{{"name": "operator", "version": "v0.9.0"}, {"name": "agent", "version": "v0.9.0"}}}}
}
