package launch

import (
	"cmp"
	"path/filepath"
	"strings"
)

// IKERun is the folder of the IKE daemon's socket, which the host's agent uses.
const IKERun = "/run/weft/ipsec"

// ikeConfig configures charon: vici alone configures connections, no routes are made, and a peer that does not answer is given up after
// some 10 s, so that the next packet to it begins again.
const ikeConfig = `charon {
  load_modular = yes
  install_routes = no
  retransmit_timeout = 1.0
  retransmit_base = 1.8
  retransmit_tries = 4
  plugins {
    include /etc/strongswan.d/charon/*.conf
    stroke { load = no }
    updown { load = no }
    resolve { load = no }
    attr { load = no }
    bypass-lan { load = no }
    vici { socket = unix://SOCKET }
  }
  filelog {
    stderr {
      default = 0
      ike = LEVEL
      knl = LEVEL
      time_format = %FT%T
    }
  }
}
`

// IKESocket returns charon's vici socket in a folder.
func IKESocket(dir string) string { return filepath.Join(dir, "charon.vici") }

// IKE returns strongSwan's IKE daemon, which takes its connections from the socket in dir.
func IKE(dir string) Program {
	config := filepath.Join(dir, "strongswan.conf")
	level := cmp.Or(map[string]string{"error": "0", "warning": "0", "debug": "2"}[logLevel()], "1")
	text := strings.NewReplacer("SOCKET", IKESocket(dir), "LEVEL", level).Replace(ikeConfig)
	return Program{Dirs: []string{dir}, Files: map[string]string{config: text},
		Env: []string{"STRONGSWAN_CONF=" + config}, Argv: []string{"charon"}}
}
