// Package lint finds mistakes in manifests that the API server accepts: policies that select nothing, rules without
// effect, ports that no container has, and annotations that Weft does not read. It is pure.
package lint
