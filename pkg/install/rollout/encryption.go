package rollout

import "github.com/weft-network/weft/pkg/install/render"

// encryptionStage applies the IKE daemon. Nothing waits for it: the kernel goes on to encrypt while its pods are replaced, which
// Kubernetes does.
func (v *view) encryptionStage(s *Step) *wait {
	if v.Wanted[render.IKE] != nil {
		v.release(s, render.IKE)
	}
	return nil
}
