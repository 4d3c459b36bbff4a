package operator

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func keyOf(object client.Object) types.NamespacedName { return client.ObjectKeyFromObject(object) }
