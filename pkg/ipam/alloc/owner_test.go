package alloc

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestOwner(t *testing.T) {
	web := types.NamespacedName{Namespace: "demo", Name: "web"}
	for _, c := range []struct {
		owner                       Owner
		pod                         types.NamespacedName
		uid, ifName, request, named string
	}{
		{PodOwner("demo", "web", "uid"), web, "uid", "", "", "pod demo/web"},
		{AttachmentOwner(web, "uid", "net1", "hash"), web, "uid", "net1", "hash", "pod demo/web"},
		{PodOwner("demo", "web", ""), web, "", "", "", "pod demo/web"},
		{"IPAMClaim demo/web uid", types.NamespacedName{}, "", "", "", "IPAMClaim demo/web uid"},
		{"", types.NamespacedName{}, "", "", "", ""},
	} {
		if c.owner.Pod() != c.pod || c.owner.UID() != c.uid || c.owner.Interface() != c.ifName || c.owner.Request() != c.request ||
			c.owner.String() != c.named {
			t.Errorf("%q is of %v, %q, %q, %q, named %q", string(c.owner), c.owner.Pod(), c.owner.UID(), c.owner.Interface(),
				c.owner.Request(), c.owner)
		}
	}
}
