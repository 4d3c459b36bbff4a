package cniwire

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
)

// Bounds of names: Kubernetes' (RFC 1123 label and subdomain) and the file
// system's, because runtimes use container ids as file names.
const (
	maxLabel       = 63
	maxSubdomain   = 253
	maxUID         = 128
	maxContainerID = 255
)

var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// A static pod's UID is a hash without hyphens, so this is not a UUID's form.
	uid       = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`)
	processNS = regexp.MustCompile(`^/proc/[1-9][0-9]*/(task/[1-9][0-9]*/)?ns/net$`)
)

// NetNSRoots are the directories in which runtimes keep network namespaces.
func NetNSRoots() []string {
	return []string{"/run/netns", "/var/run/netns"}
}

// Validate says what of a request is not as it must be, as a *Error that names
// the field. A network namespace must be directly in one of the roots or be a
// process's. DEL has no demands beyond its container and interface: it has to
// succeed for whatever was there before.
func (r Request) Validate(netNSRoots []string) error {
	if r.Version != Version {
		return Errorf(CodeTryAgainLater, "weft-cni speaks version %d and weft-agent %d", r.Version, Version)
	}
	config, err := ParseConfig(r.Config)
	if err != nil {
		return err
	}
	switch r.Command {
	case Status:
		return nil
	case GC:
		return config.validateAttachments()
	case Del:
		return firstError(r.validateContainer, r.Args.validate)
	case Add:
		return firstError(r.validateContainer, r.Args.validate, r.Args.validatePresent, func() error {
			return validateNetNS(r.NetNS, netNSRoots)
		}, config.validateFirst)
	case Check:
		return firstError(r.validateContainer, r.Args.validate, r.Args.validatePresent, func() error {
			return validateNetNS(r.NetNS, netNSRoots)
		}, config.validatePrevResult)
	}
	return Errorf(CodeInvalidEnvironment, "CNI_COMMAND %q is unknown", r.Command)
}

func firstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r Request) validateContainer() error {
	if err := utils.ValidateContainerID(r.ContainerID); err != nil {
		return invalid("CNI_CONTAINERID", r.ContainerID, err)
	}
	if len(r.ContainerID) > maxContainerID {
		return Errorf(CodeInvalidEnvironment, "CNI_CONTAINERID has %d characters, more than %d", len(r.ContainerID), maxContainerID)
	}
	if err := utils.ValidateInterfaceName(r.IfName); err != nil {
		return invalid("CNI_IFNAME", r.IfName, err)
	}
	return nil
}

func invalid(field, value string, err *types.Error) error {
	return Errorf(CodeInvalidEnvironment, "%s %q: %s", field, value, err.Msg)
}

func (a Args) validatePresent() error {
	if a.PodNamespace == "" {
		return Errorf(CodeInvalidEnvironment, "CNI_ARGS lacks K8S_POD_NAMESPACE")
	}
	if a.PodName == "" {
		return Errorf(CodeInvalidEnvironment, "CNI_ARGS lacks K8S_POD_NAME")
	}
	return nil
}

func (a Args) validate() error {
	for _, field := range []struct {
		name, value string
		form        *regexp.Regexp
		max         int
	}{
		{"K8S_POD_NAMESPACE", a.PodNamespace, label, maxLabel},
		{"K8S_POD_NAME", a.PodName, subdomain, maxSubdomain},
		{"K8S_POD_UID", a.PodUID, uid, maxUID},
	} {
		if field.value == "" {
			continue
		}
		if len(field.value) > field.max || !field.form.MatchString(field.value) {
			return Errorf(CodeInvalidEnvironment, "CNI_ARGS: %s %.300q is not valid", field.name, field.value)
		}
	}
	if a.InfraContainerID == "" {
		return nil
	}
	if err := utils.ValidateContainerID(a.InfraContainerID); err != nil {
		return invalid("CNI_ARGS: K8S_POD_INFRA_CONTAINER_ID", a.InfraContainerID, err)
	}
	return nil
}

// validateFirst: ADD answers with its own result alone, so that one of a plugin before it would be lost.
func (c Config) validateFirst() error {
	if len(c.PrevResult) != 0 && string(c.PrevResult) != "null" {
		return Errorf(CodeInvalidConfig, "network configuration: ADD has a prevResult: weft-cni must be the first of the plugins")
	}
	return nil
}

// validatePrevResult: CHECK compares with what ADD gave (specification, section 4).
func (c Config) validatePrevResult() error {
	if len(c.PrevResult) == 0 {
		return Errorf(CodeInvalidConfig, "network configuration: CHECK needs prevResult")
	}
	return nil
}

// validateAttachments: a list with an entry that cannot be an attachment is not the runtime's, and nothing is removed because of it.
func (c Config) validateAttachments() error {
	for i, a := range c.ValidAttachments {
		if err := utils.ValidateContainerID(a.ContainerID); err != nil || len(a.ContainerID) > maxContainerID {
			return Errorf(CodeInvalidConfig, "network configuration: cni.dev/valid-attachments[%d]: containerID %.300q is not valid", i, a.ContainerID)
		}
		if err := utils.ValidateInterfaceName(a.IfName); err != nil {
			return Errorf(CodeInvalidConfig, "network configuration: cni.dev/valid-attachments[%d]: ifname %.300q: %s", i, a.IfName, err.Msg)
		}
	}
	return nil
}

// validateNetNS looks at the path alone; that a namespace is there, and is one,
// shows when it is opened.
func validateNetNS(path string, roots []string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return Errorf(CodeInvalidEnvironment, "CNI_NETNS %q is not a clean absolute path", path)
	}
	if processNS.MatchString(path) {
		return nil
	}
	for _, root := range roots {
		if filepath.Dir(path) == filepath.Clean(root) {
			return nil
		}
	}
	return Errorf(CodeInvalidEnvironment, "CNI_NETNS %q is not in %s", path, strings.Join(roots, ", "))
}
