package cniwire

import (
	"encoding/json"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
)

// Config is the plugin's part of the network configuration list.
type Config struct {
	CNIVersion string          `json:"cniVersion"`
	Name       string          `json:"name"`
	Socket     string          `json:"socket"` // absolute path; DefaultSocket if absent
	PrevResult json.RawMessage `json:"prevResult,omitempty"`
	// DNS goes into the result as it is (specification, section 2); absent: the cluster's.
	DNS *types.DNS `json:"dns,omitempty"`
	// ValidAttachments are for GC all that the runtime knows of this network. nil is no list, which says nothing; an empty list says
	// that there are none.
	ValidAttachments []Attachment `json:"cni.dev/valid-attachments,omitempty"`
}

// Attachment names an interface of a container to GC.
type Attachment = types.GCAttachment

// ParseConfig reads the configuration that the runtime gave on standard input.
// Its errors are *Error.
func ParseConfig(raw []byte) (Config, error) {
	config := Config{Socket: DefaultSocket}
	if err := json.Unmarshal(raw, &config); err != nil {
		return Config{}, Errorf(CodeDecodingFailure, "network configuration: %v", err)
	}
	if err := utils.ValidateNetworkName(config.Name); err != nil {
		return Config{}, Errorf(CodeInvalidConfig, "network configuration: name %q: %v", config.Name, err)
	}
	if !filepath.IsAbs(config.Socket) {
		return Config{}, Errorf(CodeInvalidConfig, "network configuration: socket %q is not an absolute path", config.Socket)
	}
	return config, nil
}
