package launch

import (
	"encoding/json"
	"fmt"
)

// inactivityProbe is in milliseconds. On a busy machine a client may not get the CPU within the default of 5 s.
const inactivityProbe = 60000

// relayBackoff is the longest time, in milliseconds, between a relay's attempts to connect to its source. Meanwhile its
// nodes see no change. It also bounds an attempt, which needs more than the first second on a busy machine.
const relayBackoff = 4000

// listener holds the options of a remote in ovsdb-server's --config-file.
type listener struct {
	InactivityProbe int    `json:"inactivity-probe,omitempty"`
	Role            string `json:"role,omitempty"`
	ReadOnly        bool   `json:"read-only,omitempty"`
}

type listeners map[string]listener // target -> options

// configFile returns ovsdb-server's --config-file for one database (ovsdb-server(1), 3.3 and newer).
func configFile(database string, remotes listeners) (string, error) {
	return encode(remotes, database, map[string]any{})
}

// relayConfig returns the --config-file of a relay of a database. source are the database's remotes, separated by commas.
func relayConfig(database, source string, remotes listeners) (string, error) {
	return encode(remotes, database, map[string]any{"service-model": "relay",
		"source": map[string]any{source: map[string]any{"inactivity-probe": inactivityProbe, "max-backoff": relayBackoff}}})
}

func encode(remotes listeners, database string, settings map[string]any) (string, error) {
	for target, options := range remotes {
		options.InactivityProbe = inactivityProbe
		remotes[target] = options
	}
	text, err := json.MarshalIndent(map[string]any{"remotes": remotes, "databases": map[string]any{database: settings}}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("cannot encode the configuration of ovsdb-server: %w", err)
	}
	return string(text), nil
}
