package ui

import (
	_ "embed"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// fits is a script whose value lists what is cut off, or beside the screen.
//
//go:embed testdata/fits.js
var fits string

// widths are the widths of a telephone, a tablet and a desk, in pixels.
var widths = []int64{390, 768, 1440}

// size gives the window a width.
func (p page) size(width int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
	p.await(fmt.Sprintf("document.documentElement.clientWidth === %d", width))
}

// Every view fits on a telephone, a tablet and a desk, in light and dark: nothing is beside the screen, no control is cut off, and
// the contrast holds.
func TestEveryViewFits(t *testing.T) {
	p, _ := opened(t)
	for _, width := range widths {
		p.size(width)
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			for _, view := range views {
				p.show(view.path, view.title)
				p.await(view.ready)
				p.await("document.getAnimations().length === 0")
				for _, script := range []string{fits, checks} {
					for _, wrong := range eval[[]string](p, script) {
						t.Errorf("%s, %d px, %s: %s", view.name, width, scheme, wrong)
					}
				}
				if *pictures != "" {
					p.picture(fmt.Sprintf("%s-%d-%s", view.name, width, scheme))
				}
			}
		}
	}
}

// The columns with names, states and addresses are visible at every width.
func TestColumnsAreVisible(t *testing.T) {
	p, _ := opened(t)
	for _, width := range widths {
		p.size(width)
		for view, columns := range map[string][]string{
			"pods": {"Namespace", "Name", "Node", "State", "Addresses"}, "nodes": {"Name", "State", "Subnets", "Tunnel", "Pods"},
			"networks": {"Name", "Topology", "State", "Subnets", "Ports"}, "services": {"Namespace", "Name", "Type", "Addresses", "Ports"},
			"policies": {"Kind", "Namespace", "Name", "Pods"}, "egress": {"Kind", "Namespace", "Name", "State", "How"},
			"bgp": {"Kind", "Name", "State", "What", "Nodes"}, "balancers": {"Name", "Class", "Ranges", "Used", "State"},
			"zones": {"Name", "State", "Nodes", "Databases", "Selects"}, "pools": {"Name", "Location", "Ranges", "Used", "State"},
			"addresses": {"Address", "Pool", "State", "Holder", "Node"},
		} {
			eval[bool](p, fmt.Sprintf("(location.hash = '#/%s', true)", view))
			p.await(fmt.Sprintf("document.querySelector('nav [aria-current]')?.dataset.name === %q && document.querySelector('.row')", view))
			for _, column := range columns {
				script := fmt.Sprintf(`(() => {
					const at = [...document.querySelectorAll('[role=columnheader]')].findIndex(e => e.textContent.startsWith(%q));
					const cell = document.querySelector('.row').children[at];
					const { width, height, left, right } = cell?.getBoundingClientRect() ?? {};
					return width >= 30 && height > 0 && left >= 0 && right <= innerWidth ||
						cell.textContent === '' && getComputedStyle(cell).display !== 'none';
				})()`, column)
				if !eval[bool](p, script) {
					t.Errorf("%s, %d px: the column %s is not visible", view, width, column)
				}
			}
		}
	}
}
