package v1alpha1

// The paths are relative to this directory, where go generate runs its commands.
//go:generate go tool -modfile=../../../test/tools/apis/go.mod controller-gen object crd:maxDescLen=1024 paths=. output:crd:artifacts:config=../../../config/crd/bases
