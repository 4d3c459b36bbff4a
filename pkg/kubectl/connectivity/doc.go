// Package connectivity computes what "kubectl weft check connectivity" tests, and judges and reports the results. It
// reaches no cluster: package cli creates the pods, and package probe runs in them.
//
//	kubectl weft check connectivity (pkg/kubectl/cli)
//	   │ Matrix: who sends which packet to whom, and who must answer
//	   ├──exec──▶ pod a of each node:  weft probe run ──▶ pods, services, node ports, names, outside
//	   ├──exec──▶ agent of each node:  weft probe run ──▶ pods, services, node ports
//	   └──exec──▶ pod a of each node:  weft probe flows ─▶ weft probe serve, which sends and counts for --for
//	   │ Judge: a result for each cell
//	   ▼
//	 Report: text, JSON, JUnit
package connectivity
