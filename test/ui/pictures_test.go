package ui

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pictures is the folder to which TestPictures writes.
var pictures = flag.String("pictures", "", "write pictures of the page to this folder")

// scheme makes the browser prefer light or dark colours.
func (p page) scheme(name string) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
}

// picture writes what the browser shows.
func (p page) picture(name string) {
	p.t.Helper()
	shot, err := chromedp.Run(p, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	small, err := compress(shot)
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), small, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// compress reduces a picture to its 256 most frequent colours.
func compress(shot []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return nil, err
	}
	counts := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[full.At(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	small := image.NewPaletted(full.Bounds(), color.Palette(frequent[:min(256, len(frequent))]))
	draw.Draw(small, full.Bounds(), full, image.Point{}, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, small)
	return out.Bytes(), err
}

// TestPictures writes a picture of every view, light and dark. docs/user/pictures has some of them.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no -pictures")
	}
	api := newAPIServer(t)
	api.fill()
	p := open(t, serve(t, api.kubeconfig(t)))
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for _, view := range views {
			p.show(view.path, view.title)
			p.await(view.ready)
			p.await("document.getAnimations().length === 0")
			p.picture(view.name + "-" + scheme)
		}
	}
}

const rows = "document.querySelectorAll('.row').length > 0"

// views are the views of the page, and when each shows what it is for.
var views = []struct{ name, path, title, ready string }{
	{"overview", "overview", "Overview", "document.querySelector('.problems')"},
	{"pods", "pods", "Pods", rows},
	{"nodes", "nodes", "Nodes", rows},
	{"networks", "networks", "Networks", rows},
	{"services", "services", "Services", rows},
	{"map", "map", "Map", "document.querySelector('.map .tile')"},
	{"map-node", "map/nodes/n1", "Map: n1", "document.querySelectorAll('.map .pod').length >= 50"},
	{"map-pod", "map/pods/demo/web", "Map: demo/web", "document.querySelector('.map .way')"},
	{"map-service", "map/services/demo/web", "Map: demo/web", "document.querySelector('.map .way')"},
	{"network", "networks/storage", "Network storage", "document.querySelector('table')"},
	{"zones", "zones", "Zones", rows},
	{"balancers", "balancers", "Load balancer pools", rows},
	{"egress", "egress", "Egress", rows},
	{"bgp", "bgp", "BGP", rows},
	{"policies", "policies", "Policies", rows},
	{"pools", "pools", "IP pools", rows},
	{"addresses", "addresses", "Floating IPs", rows},
	{"pod", "pods/demo/web", "Pod demo/web", "document.querySelector('table')"},
	{"node", "nodes/n100", "Node n100", "document.querySelector('.problems')"},
	{"topology", "topology", "Topology", "document.querySelector('.picture svg[viewBox]')"},
	{"topology-pod", "topology/pod/demo/web", "Topology around pod/demo/web", "document.querySelector('.picture svg[viewBox]')"},
	{"trace", "trace?from=demo/client&to=svc/demo/web&port=80", "Trace", "document.querySelector('.picture svg[viewBox]')"},
	{"trace-dropped", "trace?from=demo/client&to=demo/web&port=8081&family=IPv4", "Trace", "document.querySelector('.picture svg[viewBox]')"},
	{"reach", "reach/demo/web", "Who may reach demo/web", "document.querySelector('table')"},
	{"search", "search/10.244.7.1", "Search", rows},
	{"missing", "nowhere/at/all", "No such page", "document.querySelector('main code')"},
	{"changes", "changes", "Changes", "document.querySelector('.changes li')"},
}
