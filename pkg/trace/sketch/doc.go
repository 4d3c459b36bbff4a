// Package sketch draws the logical network, or the part around an object, as text, dot, mermaid or svg.
//
//	Input (nodes, pods, services) ──Draw──▶ Graph ──Text, DOT, Mermaid, SVG──▶ picture
//
// All functions are pure.
package sketch
