// Package sketch draws the logical network, or the part around an object, as text, dot, mermaid or svg. It also draws
// the ways of traced packets.
//
//	Input (nodes, pods, services) ──Draw──▶ Graph ──Text, DOT, Mermaid, SVG──▶ picture
//	Way (title, verdict, hops)    ──────────WaysDOT, WaysSVG───────────────▶ picture
//
// All functions are pure.
package sketch
