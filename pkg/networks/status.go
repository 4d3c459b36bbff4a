package networks

import (
	"encoding/json"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
)

// ParseStatus reads the annotation network-status of a pod: name of an interface -> what the pod has there. The interface of the cluster
// network is left out. The error names the annotation.
func ParseStatus(annotations map[string]string) (map[string]nadv1.NetworkStatus, error) {
	text := annotations[nadv1.NetworkStatusAnnot]
	if text == "" {
		return nil, nil
	}
	var all []nadv1.NetworkStatus
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", nadv1.NetworkStatusAnnot, err)
	}
	byInterface := make(map[string]nadv1.NetworkStatus, len(all))
	for _, status := range all {
		if !status.Default {
			byInterface[status.Interface] = status
		}
	}
	return byInterface, nil
}
