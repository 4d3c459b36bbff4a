package demo

import (
	"fmt"
	"slices"
	"strconv"
)

// printTraffic prints which pods reach which: as a matrix, pair by pair, and summarized.
func printTraffic(s Screen, pods []Pod, r Report) {
	s.title("Who reaches whom: checks that succeeded, of ping and HTTP over IPv4 and IPv6")
	s.table(matrix(pods, r))
	s.title("Pair by pair, in milliseconds")
	s.table(list(pods, r))
	if slices.ContainsFunc(r.Results, repeated) {
		fmt.Fprintf(s, "\n* answered only at a retry: the first packets to another node can be lost until its tunnel is resolved\n")
	}
	s.title("Summary")
	s.table(summary(r))
	verdict, with := fmt.Sprintf("%d of %d pairs ok", r.OK, r.Pairs), green
	if r.OK < r.Pairs {
		with = red
	}
	fmt.Fprintf(s, "\n%s (a pair: from, to, family, ping or HTTP)\n", s.paint(with, verdict))
}

func repeated(r Result) bool { return r.OK && r.Tries > 1 }

// matrix numbers the columns, because pod names are too long for them.
func matrix(pods []Pod, r Report) [][]cell {
	head := []cell{{}, {text: "FROM \\ TO", style: faint}, {text: "NODE", style: faint}}
	for i := range pods {
		head = append(head, cell{text: strconv.Itoa(i + 1), style: faint, right: true})
	}
	rows := [][]cell{head}
	for i, from := range pods {
		row := []cell{{text: strconv.Itoa(i + 1), style: faint, right: true}, {text: from.Name}, {text: from.Node}}
		for _, to := range pods {
			row = append(row, tally(r.between(from.Name, to.Name)))
		}
		rows = append(rows, row)
	}
	return rows
}

// tally returns the number of successful checks; nothing for a pod and itself.
func tally(checks map[check]Result) cell {
	if len(checks) == 0 {
		return cell{text: "-", style: faint, right: true}
	}
	good := 0
	for _, r := range checks {
		if r.OK {
			good++
		}
	}
	c := cell{text: fmt.Sprintf("%d/%d", good, len(checks)), style: green, right: true}
	if good < len(checks) {
		c.style = red
	}
	return c
}

func list(pods []Pod, r Report) [][]cell {
	rows := [][]cell{listHead()}
	for _, from := range pods {
		name, node := from.Name, from.Node // only in its first row
		for _, to := range pods {
			if from.Name == to.Name {
				continue
			}
			rows = append(rows, append(text(name, node, to.Name, to.Node, path(from.Node == to.Node)),
				listCells(r.between(from.Name, to.Name))...))
			name, node = "", ""
		}
	}
	return rows
}

func listHead() []cell {
	head := text("FROM", "NODE", "TO", "NODE", "PATH")
	for _, family := range families {
		head = append(head, cell{text: string(family) + " PING", right: true}, cell{text: "HTTP", right: true})
	}
	head = append(head, cell{text: "OK"})
	for i := range head {
		head[i].style = faint
	}
	return head
}

func listCells(checks map[check]Result) []cell {
	var cells []cell
	ok := cell{text: "yes", style: green}
	for _, family := range families {
		for _, kind := range kinds {
			r := checks[check{family, kind}]
			if !r.OK {
				ok = cell{text: "NO", style: red}
			}
			cells = append(cells, duration(r))
		}
	}
	return append(cells, ok)
}

// duration reserves a column for the mark, so that decimal points are aligned.
func duration(r Result) cell {
	switch {
	case !r.OK:
		return cell{text: "failed ", style: red, right: true}
	case repeated(r):
		return cell{text: fmt.Sprintf("%.2f*", r.RTTms), right: true}
	}
	return cell{text: fmt.Sprintf("%.2f ", r.RTTms), right: true}
}

func path(sameNode bool) string {
	if sameNode {
		return "same node"
	}
	return "cross node"
}

// summary has a row per path and kind, with both families together because they use the same path.
func summary(r Report) [][]cell {
	head := text("PATH", "KIND")
	for _, word := range []string{"PAIRS", "OK", "MEDIAN ms", "MAX ms"} {
		head = append(head, cell{text: word, right: true})
	}
	for i := range head {
		head[i].style = faint
	}
	rows := [][]cell{head}
	for _, same := range []bool{true, false} {
		for _, kind := range kinds {
			if row := summaryRow(r, same, kind); row != nil {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func summaryRow(r Report, same bool, kind Kind) []cell {
	var times []float64
	pairs := 0
	for _, result := range r.Results {
		if result.SameNode != same || result.Kind != kind {
			continue
		}
		pairs++
		if result.OK {
			times = append(times, result.RTTms)
		}
	}
	if pairs == 0 {
		return nil
	}
	row := append(text(path(same), string(kind)), cell{text: strconv.Itoa(pairs), right: true},
		cell{text: strconv.Itoa(len(times)), right: true})
	if len(times) == 0 {
		return row
	}
	slices.Sort(times)
	return append(row, milliseconds(times[len(times)/2]), milliseconds(times[len(times)-1]))
}

func milliseconds(ms float64) cell { return cell{text: fmt.Sprintf("%.2f", ms), right: true} }

// failuresShown limits the failures to a screenful; the file of results has all.
const failuresShown = 20

// printFailures prints the failures and where to search for their cause.
func printFailures(s Screen, lab, file string, r Report) {
	failed := r.failed()
	s.title("What failed")
	rows := [][]cell{text("FROM", "NODE", "TO", "NODE", "KIND", "ADDRESS", "TRIES", "ERROR")}
	for i := range rows[0] {
		rows[0][i].style = faint
	}
	for _, f := range failed[:min(len(failed), failuresShown)] {
		words := text(f.From, f.FromNode, f.To, f.ToNode, string(f.Family)+" "+string(f.Kind), f.Address, strconv.Itoa(f.Tries))
		rows = append(rows, append(words, cell{text: f.Error, style: red}))
	}
	s.table(rows)
	if more := len(failed) - failuresShown; more > 0 {
		fmt.Fprintf(s, "... and %d more: see %s\n", more, file)
	}
	printDiagnostics(s, lab, failed[0])
}

func printDiagnostics(s Screen, lab string, failed Result) {
	s.title("Diagnostics")
	s.table(commands(lab, []hint{
		{"status", "the machines' daemons"},
		{"kubectl get clusternetwork,nodenetwork -o wide", "the product's own status"},
		{"kubectl -n weft-system logs deployment/weft-operator", "what the operator did in OVN"},
		{"kubectl -n weft-system logs daemonset/weft-agent --all-pods --prefix", "what the agents did on the nodes"},
		{"exec central -- ovn-sbctl show", "the chassis, and the ports bound to them"},
		{"exec " + failed.FromNode + " -- ovs-vsctl show", "bridges, tunnels and pods' interfaces"},
		{"exec " + failed.ToNode + " -- " + dumpFlows, "what becomes of packets right now"},
	}))
}
