package options

import (
	"flag"
	"os"
)

// TLS has the files and the name for "ssl:" remotes. It has the fields of ovndb.TLS.
type TLS struct {
	PrivateKey, Certificate, CACert string
	ServerName                      string
}

// tlsDir is where the bundle mounts the Secret, which has the keys of kubernetes.io/tls and cert-manager.
const tlsDir = "/etc/weft/tls"

// flags adds the flags, with the names that Open vSwitch's own programs use.
func (t *TLS) flags(flags *flag.FlagSet) {
	flags.StringVar(&t.PrivateKey, "private-key", tlsDir+"/tls.key", "this program's key for ssl: remotes, read for each connection")
	flags.StringVar(&t.Certificate, "certificate", tlsDir+"/tls.crt",
		"this program's certificate for ssl: remotes, read for each connection")
	flags.StringVar(&t.CACert, "ca-cert", tlsDir+"/ca.crt",
		"certificates of the authorities that sign the server's certificate, read for each connection")
	flags.StringVar(&t.ServerName, "tls-server-name", os.Getenv("WEFT_TLS_SERVER_NAME"),
		"name or address that the server's certificate must be valid for (environment WEFT_TLS_SERVER_NAME); empty: the remote's host")
}
