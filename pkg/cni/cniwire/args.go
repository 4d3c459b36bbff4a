package cniwire

import "strings"

// ParseArgs parses CNI_ARGS, "KEY=value;KEY=value". It ignores keys that Kubernetes does not define, as
// IgnoreUnknown=1 demands.
func ParseArgs(value string) (Args, error) {
	var args Args
	fields := map[string]*string{ // key of CNI_ARGS -> its field
		"K8S_POD_NAMESPACE":          &args.PodNamespace,
		"K8S_POD_NAME":               &args.PodName,
		"K8S_POD_UID":                &args.PodUID,
		"K8S_POD_INFRA_CONTAINER_ID": &args.InfraContainerID,
	}
	for pair := range strings.SplitSeq(value, ";") {
		if pair == "" {
			continue
		}
		key, content, found := strings.Cut(pair, "=")
		if !found {
			return Args{}, Errorf(CodeInvalidEnvironment, "CNI_ARGS: %q is not KEY=value", pair)
		}
		if field, known := fields[key]; known {
			*field = content
		}
	}
	return args, nil
}
