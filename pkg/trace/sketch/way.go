package sketch

import (
	"fmt"
	"html"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/trace"
)

// Way is the answer about one packet.
type Way struct {
	// Title names the packet.
	Title string
	trace.Verdict
	Hops []trace.Hop
	// Reply is the way of the reply. It is empty if the reply was not traced.
	Reply []trace.Hop
}

// shapeOf returns the shape of a hop, which depends on its router or switch and on the object that decides.
func shapeOf(h trace.Hop) Shape {
	switch {
	case h.By.Kind == "Service":
		return Service
	case h.By.Kind != "":
		return Decision
	case strings.HasPrefix(h.Where, names.GatewayRouter("")), strings.HasPrefix(h.Where, names.EgressRouter("")):
		return Router
	case h.Where != "":
		return Switch
	}
	return Pod
}

// resultFills are the colours of verdicts.
var resultFills = map[trace.Result]string{trace.Allowed: "#bfe8b8", trace.Dropped: "#f6b8b3", trace.Rejected: "#f6b8b3",
	trace.Unknown: "#e6e6e6"}

// WaysDOT renders ways for Graphviz: a cluster for each packet, with the way, its verdict, and the reply's way.
func WaysDOT(ways []Way) string {
	var b strings.Builder
	b.WriteString("digraph weft {\n  node [style=filled, fillcolor=white];\n")
	for i, w := range ways {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", i, quote(w.Title))
		id := fmt.Sprintf("p%d", i)
		chainDOT(&b, id+"w", w.Hops)
		fmt.Fprintf(&b, "    %sv [shape=box, fillcolor=%q, label=%s];\n", id, resultFills[w.Result], quote(w.Line()))
		if n := len(w.Hops); n > 0 {
			fmt.Fprintf(&b, "    %sw%d -> %sv;\n", id, n-1, id)
		}
		chainDOT(&b, id+"r", w.Reply)
		if len(w.Reply) > 0 {
			fmt.Fprintf(&b, "    %sv -> %sr0 [label=\"reply\", style=dashed];\n", id, id)
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// chainDOT writes hops, each with an edge from the previous hop.
func chainDOT(b *strings.Builder, id string, hops []trace.Hop) {
	for i, h := range hops {
		shape := shapeOf(h)
		fmt.Fprintf(b, "    %s%d [shape=%s, fillcolor=%q, label=%s];\n", id, i, dotShapes[shape], fills[shape],
			quote(strings.TrimPrefix(h.Where+"\n"+h.What, "\n")))
		if i > 0 {
			fmt.Fprintf(b, "    %s%d -> %s%d;\n", id, i-1, id, i)
		}
	}
}

// quote returns a string of DOT. Other letters than quotes, backslashes and newlines need no escapes.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// Sizes of ways in the SVG, in pixels and letters.
const (
	wayWidth, wayGap, wayLetters = 480, 40, 74
	wayStep                      = boxHeight + 22
	titleHeight                  = 28
)

// WaysSVG renders ways as a picture: below the title of each packet its way from top to bottom with the verdict, and
// beside it the reply's way. It refers to nothing outside.
func WaysSVG(ways []Way) string {
	height, columns := 2*margin, 1
	for _, w := range ways {
		height += titleHeight + w.rows()*wayStep
		if len(w.Reply) > 0 {
			columns = 2
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		2*margin+columns*wayWidth+(columns-1)*wayGap, height)
	b.WriteString("<title>Trace</title>\n")
	b.WriteString(`<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">` +
		`<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>` + "\n")
	y := margin
	for _, w := range ways {
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="14" font-weight="bold">%s</text>`+"\n", margin, y+inset, html.EscapeString(w.Title))
		w.columns(&b, y+titleHeight)
		y += titleHeight + w.rows()*wayStep
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// rows is the number of boxes in the longer column.
func (w Way) rows() int { return max(len(w.Hops)+1, len(w.Reply)) }

// columns writes the way and the reply's way.
func (w Way) columns(b *strings.Builder, y int) {
	for i, h := range w.Hops {
		hopBox(b, margin, y+i*wayStep, h)
		arrow(b, margin, y+i*wayStep)
	}
	wayBox(b, margin, y+len(w.Hops)*wayStep, string(w.Result), resultFills[w.Result], string(w.Result), w.Line())
	for i, h := range w.Reply {
		x := margin + wayWidth + wayGap
		if hopBox(b, x, y+i*wayStep, h); i > 0 {
			arrow(b, x, y+(i-1)*wayStep)
		}
	}
}

// hopBox writes the box of a hop.
func hopBox(b *strings.Builder, x, y int, h trace.Hop) {
	where := h.Where
	if h.By.Kind != "" {
		where = h.By.String() + ", in " + h.Where
	}
	wayBox(b, x, y, string(shapeOf(h)), fills[shapeOf(h)], where, h.What)
}

// wayBox writes a box of a class with a bold line, which may be empty, and a line that is cut to the width.
func wayBox(b *strings.Builder, x, y int, class, fill, bold, line string) {
	fmt.Fprintf(b, `<g class="%s"><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#333"/>`,
		class, html.EscapeString(line), x, y, wayWidth, boxHeight, fill)
	low := y + boxHeight/2 + 4
	if bold != "" {
		fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`, x+inset, y+boxHeight/2-4, html.EscapeString(cut(bold, wayLetters)))
		low = y + boxHeight - inset
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text></g>`+"\n", x+inset, low, html.EscapeString(cut(line, wayLetters)))
}

// arrow writes an arrow from the box at a place to the box below it.
func arrow(b *strings.Builder, x, y int) {
	fmt.Fprintf(b, `<path d="M%d %dV%d" fill="none" stroke="#777" marker-end="url(#arrow)"/>`+"\n", x+wayWidth/2, y+boxHeight, y+wayStep)
}
