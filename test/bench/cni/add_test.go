//go:build e2e

package cni

import (
	"flag"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/sandbox"
	"github.com/weft-network/weft/test/testbed"
)

var adds = flag.Int("n", 200, "ADDs one at a time")

const (
	// aboveFloor is the largest allowed difference of an ADD's median to the reference plugin's.
	aboveFloor = 30 * time.Millisecond
	// atOnce is the number of pods that start together on a node.
	atOnce = 50
	rounds = 4
)

func open(t *testing.T) *bench {
	t.Helper()
	cluster, err := lab.Open(lab.Options{Name: labName()})
	must(t, err)
	b, err := testbed.New(t.Context(), cluster, "bench")
	must(t, err)
	return newBench(t, b)
}

// TestADD measures ADD for pods whose port exists already, as kubelet would find it: one at a time and many at once,
// alternating with the floor. Then it measures the time from the pod's creation.
func TestADD(t *testing.T) {
	b := open(t)
	reference := floor(t, b.Bed)
	pods := b.park("add", atOnce)
	warmUp(b, reference)

	single, floorSingle := series{name: "weft"}, series{name: "bridge"}
	dels, floorDels := series{name: "weft"}, series{name: "bridge"}
	clock := newStages(b)
	for i := range *adds {
		add, del := b.call(weft(), pods[i%len(pods)])
		single.took = append(single.took, b.run(add)...)
		clock.one()
		dels.took = append(dels.took, b.run(del)...)
		refAdd, refDel := b.call(reference, pods[0])
		floorSingle.took = append(floorSingle.took, b.run(refAdd)...)
		floorDels.took = append(floorDels.took, b.run(refDel)...)
		b.end(add, refAdd)
	}
	many, floorMany := series{name: "weft"}, series{name: "bridge"}
	for range rounds {
		many.took = append(many.took, b.together(weft(), pods)...)
		floorMany.took = append(floorMany.took, b.together(reference, pods)...)
	}
	fromCreation := series{"ADD, 1 at a time", nil}
	for i := range min(*adds, 100) {
		fromCreation.took = append(fromCreation.took, b.created(fmt.Sprintf("created-%d", i)))
	}
	above := single.at(50) - floorSingle.at(50)
	fmt.Printf("\nload average %s\n", loadAverage())
	printTable("ADD, 1 at a time", single, floorSingle)
	printTable("stage of these", clock.series()...)
	printTable("DEL, 1 at a time", dels, floorDels)
	printTable(fmt.Sprintf("ADD, %d at once", atOnce), many, floorMany)
	printTable("from pod creation", fromCreation)
	fmt.Printf("ADD at the median: %s ms above the floor\n\n", ms(above))
	if above > aboveFloor {
		t.Errorf("ADD takes %s more than the floor, want at most %s", above, aboveFloor)
	}
}

// warmUp creates the bridge and takes the first page faults before any measurement.
func warmUp(b *bench, reference plugin) {
	pods := b.park("warm", 1)
	for _, p := range []plugin{weft(), reference} {
		add, del := b.call(p, pods[0])
		b.run(add)
		b.run(del)
		b.end(add)
	}
}

// together runs a plugin's ADD for all pods at once, and removes their sandboxes afterwards.
func (b *bench) together(p plugin, pods []*corev1.Pod) []time.Duration {
	b.t.Helper()
	var adds, dels []sandbox.Call
	for _, pod := range pods {
		add, del := b.call(p, pod)
		adds, dels = append(adds, add), append(dels, del)
	}
	took := b.run(adds...)
	b.run(dels...)
	b.end(adds...)
	return took
}

// created returns the time from the call that creates a pod until its ADD has ended. The ADD starts as soon as the
// API server has answered.
func (b *bench) created(name string) time.Duration {
	b.t.Helper()
	pod := b.Parked(name, node)
	start := time.Now()
	must(b.t, b.API.Create(b.t.Context(), pod))
	add, del := b.call(weft(), pod)
	b.run(add)
	took := time.Since(start)
	b.run(del)
	b.end(add)
	must(b.t, b.Remove(b.t.Context(), pod))
	return took
}
