package ui

import (
	"fmt"
	"testing"
)

// largestMap is the number of elements that a map may have, whatever the size of the cluster.
const largestMap = 3500

// The map of a small network has each pod by its name, and the number of elements is bounded in a large network.
func TestMapIsBounded(t *testing.T) {
	chromium(t)
	for _, test := range []struct {
		nodes, pods   int
		points, tiles int
		name          string
	}{{3, 30, 32, 0, "map-small"}, {40, 590, 592, 0, "map-points"}, {500, 10000, 0, 500, "map-large"}} {
		api := newAPIServer(t)
		api.fillWith(test.nodes, test.pods)
		p := open(t, serve(t, api.kubeconfig(t)))
		p.show("map", "Map")
		p.await(fmt.Sprintf("document.querySelectorAll('.map .pod').length === %d && document.querySelectorAll('.map .tile').length === %d",
			test.points, test.tiles))
		if test.tiles > 0 {
			p.await("document.querySelector('.map .tile title').textContent === 'n1, Ready, 24 pods'")
		}
		for _, width := range widths {
			p.size(width)
			p.await("document.querySelector('.map svg').getAttribute('width') === String(document.querySelector('.map').clientWidth)")
			for _, wrong := range eval[[]string](p, fits) {
				t.Errorf("%s, %d px: %s", test.name, width, wrong)
			}
			if count := eval[int](p, "document.querySelectorAll('.map *').length"); count > largestMap {
				t.Errorf("%d nodes, %d pods: the map has %d elements", test.nodes, test.pods, count)
			}
			if *pictures != "" {
				p.picture(fmt.Sprintf("%s-%d", test.name, width))
			}
		}
	}
}

// An address that names no page, and an object that does not exist any more, are called so.
func TestMissingPages(t *testing.T) {
	p, api := opened(t)
	for _, path := range []string{"nowhere", "constructor", "overview/x", "%"} {
		p.show(path, "No such page")
	}
	p.show("pods/demo/nope", "Pod demo/nope")
	p.reads("main", "There is no pod demo/nope.")
	p.show("pods/demo/client", "Pod demo/client")
	p.await("document.querySelector('.actions')")
	api.remove("pods", "demo", "client")
	p.reads("main", "Pod demo/client was deleted.")
}

// The ports of the cluster network and of Networks are counted, and a secondary interface has its logical port.
func TestPortsAreCounted(t *testing.T) {
	p, api := opened(t)
	p.show("networks", "Networks")
	p.await("[...document.querySelectorAll('.row')].some(row => row.innerText.includes('cluster network') && row.innerText.includes('5000'))")
	api.remove("pods", "demo", "client")
	p.await("[...document.querySelectorAll('.row')].some(row => row.innerText.includes('cluster network') && row.innerText.includes('4999'))")
	p.show("networks/storage", "Network storage")
	p.reads("table", "demo/web", "192.168.120.9", "0a:58:c0:a8:78:09", "storage_demo_web_net1")
}
