package v1beta1

//go:generate go tool -modfile=../../../test/tools/apis/go.mod controller-gen object paths=.
