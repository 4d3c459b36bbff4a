package sketch

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// Text renders a graph as trees.
func (g Graph) Text() string {
	var b strings.Builder
	for _, root := range g.Roots {
		fmt.Fprintln(&b, root.line())
		root.lines(&b, "")
	}
	return b.String()
}

func (v *Vertex) line() string {
	name := v.Name
	if v.Shape == Router || v.Shape == Switch {
		name = string(v.Shape) + " " + name
	}
	return strings.TrimSpace(name + "  " + v.Detail)
}

func (v *Vertex) lines(b *strings.Builder, indent string) {
	for i, below := range v.Below {
		branch, further := "├─ ", "│  "
		if i == len(v.Below)-1 {
			branch, further = "└─ ", "   "
		}
		fmt.Fprintln(b, indent+branch+below.line())
		below.lines(b, indent+further)
	}
}

// vertices returns each vertex once, with its depth below a root, in the order of the text.
func (g Graph) vertices() (all []*Vertex, depth map[*Vertex]int) {
	depth = map[*Vertex]int{}
	var visit func(v *Vertex, at int)
	visit = func(v *Vertex, at int) {
		if _, seen := depth[v]; seen {
			return
		}
		depth[v], all = at, append(all, v)
		for _, below := range v.Below {
			visit(below, at+1)
		}
	}
	for _, root := range g.Roots {
		visit(root, 0)
	}
	return all, depth
}

// ids numbers vertices.
func ids(all []*Vertex) map[*Vertex]string {
	found := map[*Vertex]string{}
	for i, v := range all {
		found[v] = "v" + strconv.Itoa(i)
	}
	return found
}

var dotShapes = map[Shape]string{Router: "diamond", Switch: "box", Host: "house", Pod: "ellipse", Service: "hexagon", Outside: "plaintext",
	Decision: "octagon"}

// DOT renders a graph for Graphviz.
func (g Graph) DOT() string {
	all, _ := g.vertices()
	id := ids(all)
	var b strings.Builder
	b.WriteString("digraph weft {\n  rankdir=LR;\n")
	for _, v := range all {
		fmt.Fprintf(&b, "  %s [shape=%s, label=%q];\n", id[v], dotShapes[v.Shape], strings.TrimSpace(v.Name+"\n"+v.Detail))
	}
	for _, v := range all {
		for _, below := range v.Below {
			fmt.Fprintf(&b, "  %s -> %s;\n", id[v], id[below])
		}
	}
	b.WriteString("}\n")
	return b.String()
}

var mermaidBrackets = map[Shape][2]string{Router: {"{{", "}}"}, Switch: {"[", "]"}, Host: {"[/", "/]"}, Pod: {"(", ")"},
	Service: {"([", "])"}, Outside: {">", "]"}}

// Mermaid renders a graph as a flow chart of Mermaid.
func (g Graph) Mermaid() string {
	all, _ := g.vertices()
	id := ids(all)
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for _, v := range all {
		bracket, label := mermaidBrackets[v.Shape], html.EscapeString(v.Name)
		if v.Detail != "" {
			label += "<br>" + html.EscapeString(v.Detail)
		}
		fmt.Fprintf(&b, "  %s%s\"%s\"%s\n", id[v], bracket[0], label, bracket[1])
	}
	for _, v := range all {
		for _, below := range v.Below {
			fmt.Fprintf(&b, "  %s --> %s\n", id[v], id[below])
		}
	}
	return b.String()
}

// Sizes in the SVG, in pixels.
const (
	rowHeight, boxHeight   = 52, 40
	columnWidth, boxWidth  = 340, 280
	margin, letters, inset = 20, 42, 8
)

var fills = map[Shape]string{Router: "#fde9c9", Switch: "#d7e8fb", Host: "#e6e6e6", Pod: "#dcf3d8", Service: "#eadcf7", Outside: "#ffffff",
	Decision: "#fbf3b9"}

// SVG renders a graph as a picture: a row for each vertex, and a column for each depth. It refers to nothing outside.
func (g Graph) SVG() string {
	all, depth := g.vertices()
	row, columns := map[*Vertex]int{}, 0
	for i, v := range all {
		row[v], columns = i, max(columns, depth[v]+1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		2*margin+columns*columnWidth, 2*margin+len(all)*rowHeight)
	b.WriteString("<title>Logical network</title>\n")
	for _, v := range all {
		for _, below := range v.Below {
			x, y := margin+depth[v]*columnWidth+inset, margin+row[v]*rowHeight+boxHeight
			toX, toY := margin+depth[below]*columnWidth, margin+row[below]*rowHeight+boxHeight/2
			if row[below] < row[v] { // an endpoint, which is in the tree above
				x, y, toX = x+boxWidth-inset, y-boxHeight/2, toX+boxWidth
			}
			fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" fill="none" stroke="#777"/>`+"\n", x, y, toY, toX)
		}
	}
	for _, v := range all {
		x, y := margin+depth[v]*columnWidth, margin+row[v]*rowHeight
		fmt.Fprintf(&b, `<g class="%s"%s><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#333"/>`,
			v.Shape, objectAttribute(v), html.EscapeString(v.line()), x, y, boxWidth, boxHeight, fills[v.Shape])
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold">%s</text><text x="%d" y="%d">%s</text></g>`+"\n",
			x+inset, y+boxHeight/2-4, html.EscapeString(short(v.Name)), x+inset, y+boxHeight-inset, html.EscapeString(short(v.Detail)))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// objectAttribute is an attribute with the object of a vertex, by which a page draws the part around it.
func objectAttribute(v *Vertex) string {
	if v.Object == "" {
		return ""
	}
	return fmt.Sprintf(` data-object="%s"`, html.EscapeString(v.Object))
}

// short cuts a text to the width of a box.
func short(text string) string { return cut(text, letters) }

// cut shortens a text to a number of letters.
func cut(text string, letters int) string {
	if runes := []rune(text); len(runes) > letters {
		return string(runes[:letters-1]) + "…"
	}
	return text
}
