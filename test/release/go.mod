// Makes releases of Weft. It is a module of its own so that the registry's packages never move the versions of the product's.
module github.com/weft-network/weft/test/release

go 1.26.3

require (
	github.com/google/go-containerregistry v0.22.1
	github.com/weft-network/weft v0.0.0
)

require (
	github.com/docker/cli v29.7.2+incompatible // indirect
	github.com/docker/docker-credential-helpers v0.9.3 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/sirupsen/logrus v1.9.4 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	gotest.tools/v3 v3.5.2 // indirect
)

replace github.com/weft-network/weft => ../..
