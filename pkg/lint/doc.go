// Package lint finds mistakes in manifests that the API server accepts: policies that select nothing, rules without
// effect, and ports that no container has. It is pure.
package lint
