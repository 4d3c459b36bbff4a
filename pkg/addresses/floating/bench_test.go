package floating_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// large returns a pool of 20,000 addresses in 10 segments, of which 5,000 have a FloatingIP: half of a Deployment's
// pods, a quarter kept for it, a quarter free. The 500 nodes are of 10 racks, one for each segment.
func large(b *testing.B) (*floating.Book, []floating.Node) {
	book := floating.NewBook()
	var ranges []string
	for rack := range 10 {
		ranges = append(ranges, fmt.Sprintf("10.%d.0.0-10.%d.7.207 rack=%d", rack+1, rack+1, rack))
	}
	book.SetPool(poolOf(b, "web", ranges...), "")
	for i := range 5000 {
		address := netip.AddrFrom4([4]byte{10, byte(i%10 + 1), byte(i / 10 / 256), byte(i / 10)})
		pod := fmt.Sprint("web-", i)
		a := requesterOf("Deployment web", pod, "release-policy=immutable")
		f := floating.Claimed(floating.Choice{Address: address}, a, fmt.Sprint(i%10, "-none"), metav1.Now())
		f.UID, f.ResourceVersion = types.UID(pod), strconv.Itoa(i+1)
		if i%4 > 1 {
			f = floating.Ended(f, floating.Outcome{Released: i%4 == 3}, metav1.Now())
		}
		book.Observe(f)
	}
	var nodes []floating.Node
	for i := range 500 {
		nodes = append(nodes, nodeOf(fmt.Sprint(i%10, "-", i)))
	}
	if counts := book.Counts("web"); counts != (floating.Counts{Total: 20000, Used: 2500, Kept: 1250}) {
		b.Fatalf("counts %+v", counts)
	}
	return book, nodes
}

// BenchmarkSurvey measures what a scheduler's filter of one pod costs over 500 nodes.
func BenchmarkSurvey(b *testing.B) {
	book, nodes := large(b)
	for name, a := range map[string]floating.Requester{
		"a workload with 3,750 addresses": requesterOf("Deployment web", "x"),
		"a workload without":              requesterOf("Deployment other", "x"),
		"ranges":                          requesterOf("StatefulSet db", "db-0", `ranges=[["10.5.0.0-10.7.7.207"]]`),
		"three addresses":                 requesterOf("StatefulSet db", "db-0", "count=3"),
		"none is free":                    requesterOf("StatefulSet db", "db-0", `ranges=[["10.5.0.0-10.5.0.1"]]`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answers := book.Survey(a, nodes); len(answers) != len(nodes) {
					b.Fatal(len(answers))
				}
			}
		})
	}
}

// BenchmarkClaim measures what it costs to choose and to observe an address, until 10,000 more have a FloatingIP.
func BenchmarkClaim(b *testing.B) {
	book, nodes := large(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		pod := fmt.Sprint("new-", i%10000)
		a := requesterOf("StatefulSet db", pod)
		choices, err := book.Choose(a, nodes[i%len(nodes)])
		if err != nil {
			b.Fatal(err)
		}
		f := floating.Claimed(choices[0], a, nodes[i%len(nodes)].Name, metav1.Time{})
		f.ResourceVersion = strconv.Itoa(10000 + i)
		book.Observe(f)
	}
}

// A choice and a survey cost the same whether the workload has 10 pods with addresses or 1,000, and a decision too.
func TestTheSizeOfAWorkloadDoesNotMatter(t *testing.T) {
	costs := func(pods int) (choose, survey, before float64) {
		book := floating.NewBook()
		book.SetPool(poolOf(t, "web", "10.1.0.0-10.1.15.255 rack=1"), "")
		var last *networkv1alpha1.FloatingIP
		for i := range pods {
			a := requesterOf("Deployment web", fmt.Sprint("web-", i), "release-policy=immutable")
			last = floating.Claimed(floating.Choice{Address: netip.AddrFrom4([4]byte{10, 1, byte(i / 256), byte(i)})}, a, "1-a", metav1.Now())
			last.ResourceVersion = strconv.Itoa(i + 1)
			book.Observe(last)
		}
		a, nodes := requesterOf("Deployment web", "new", "release-policy=immutable"), []floating.Node{nodeOf("1-a"), nodeOf("2-b")}
		choose = testing.AllocsPerRun(20, func() {
			if _, err := book.Choose(a, nodes[0]); err != nil {
				t.Fatal(err)
			}
		})
		survey = testing.AllocsPerRun(20, func() { book.Survey(a, nodes) })
		return choose, survey, testing.AllocsPerRun(20, func() { book.Before(last) })
	}
	choose, survey, before := costs(10)
	choose2, survey2, before2 := costs(1000)
	t.Logf("allocations of a choice %v, of a survey %v, of a decision %v", choose2, survey2, before2)
	const spread = 2 // a map's buckets, and the race detector, make one or two more or less
	if choose2 > choose+spread || survey2 > survey+spread || before2 > before {
		t.Errorf("beside 10 pods %v, %v and %v allocations, beside 1,000 %v, %v and %v", choose, survey, before, choose2, survey2, before2)
	}
}

// A survey says for each node what Choose says.
func TestSurveyIsChoose(t *testing.T) {
	w := newWorld(t)
	w.pool("192.0.2.0/29 rack=1", "192.0.2.8/29 rack=2", "2001:db8::/120")
	nodes := []floating.Node{nodeOf("1a"), nodeOf("1b"), nodeOf("2a"), nodeOf("2b"), nodeOf("3a"), nodeOf("3b")}
	for i, node := range []string{"1a", "1b", "2a"} {
		w.get(requesterOf("DaemonSet agent", fmt.Sprint("agent-", i), "release-policy=immutable"), node)
		w.get(requesterOf("StatefulSet db", fmt.Sprint("db-", i), "release-policy=immutable", "count=1"), node)
		w.end(fmt.Sprint("agent-", i), 9)
		if i == 1 {
			w.end("db-1", 9)
		}
	}
	for _, a := range []floating.Requester{
		requesterOf("DaemonSet agent", "agent-x"), requesterOf("StatefulSet db", "db-0"),
		requesterOf("StatefulSet db", "db-1", "uid=new"), requesterOf("StatefulSet db", "db-2", "uid=new"),
		requesterOf("Deployment web", "web"), requesterOf("Deployment web", "web", "count=9"),
		requesterOf("Pod x", "x", `ranges=[["192.0.2.8/29"]]`), {Namespace: "demo", Name: "no-pool", UID: "no-pool"},
	} {
		for i, answer := range w.Survey(a, nodes) {
			choices, err := w.Choose(a, nodes[i])
			if fmt.Sprint(choices, err) != fmt.Sprint(answer.Choices, answer.Err) {
				t.Errorf("%s on %s: %v, %v; Choose says %v, %v", a.Name, nodes[i].Name, answer.Choices, answer.Err, choices, err)
			}
		}
	}
	free := w.Survey(requesterOf("Deployment web", "web"), nodes)
	if free[0].Free <= free[4].Free || free[0].Free != free[1].Free {
		t.Errorf("free addresses: %d on rack 1, %d on rack 3", free[0].Free, free[4].Free)
	}
}
