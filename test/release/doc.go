// Package release makes what users install: the product's image for several architectures with its bill of materials, the manifests
// that name it, and kubectl-weft for their machines. It needs no container engine, and the same source and packages give the same bytes.
// It is a module of its own so that the registry's packages never move the versions of the product's.
package release
