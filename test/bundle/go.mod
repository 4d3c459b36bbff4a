// Makes what is installed by others than kubectl. It is a module of its own so that its dependencies never move the versions of the product's.
module github.com/weft-network/weft/test/bundle

go 1.26.3

require sigs.k8s.io/yaml v1.6.0

require go.yaml.in/yaml/v2 v2.4.2 // indirect
