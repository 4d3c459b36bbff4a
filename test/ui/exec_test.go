package ui

import (
	"encoding/json"
	"net/http"
	"os"

	"github.com/gorilla/websocket"
)

// The channels of "kubectl exec" over a WebSocket (v5.channel.k8s.io).
const (
	channelOut    = 1
	channelStatus = 3
	channelClose  = 255
)

// execute answers "weft-ovn trace" in the way of the API server, with outputs of OVN's ovn-trace that pkg/trace keeps:
// demo/web denies port 8081 and allows any other.
func execute(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer connection.Close()
	var in []byte
	for {
		_, message, err := connection.ReadMessage()
		if err != nil {
			return
		}
		if message[0] == channelClose {
			break
		}
		in = append(in, message[1:]...)
	}
	out, err := traced(in)
	if err != nil {
		return
	}
	for channel, text := range map[byte][]byte{channelOut: out} {
		if connection.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)) != nil {
			return
		}
	}
	_ = connection.WriteMessage(websocket.BinaryMessage, append([]byte{channelStatus}, `{"status":"Success"}`...))
	_ = connection.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
}

func traced(in []byte) ([]byte, error) {
	var request struct {
		Packets []struct {
			DestinationPort int
			Reply           bool
		}
		Ports []string
	}
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, err
	}
	traces := []object{}
	for _, p := range request.Packets {
		file := "allowed-0"
		if p.Reply {
			file = "allowed-1"
		} else if p.DestinationPort == 8081 {
			file = "isolated-0"
		}
		text, err := os.ReadFile("../../pkg/trace/testdata/" + file + ".txt")
		if err != nil {
			return nil, err
		}
		row := object{"table": "ACL", "owner": "networkpolicy/demo/web", "rule": "ingress[0]"}
		traces = append(traces, object{"text": string(text), "rows": object{"329cb330": row,
			"5cb9990b": object{"table": "ACL", "owner": "networkpolicy/demo/web", "rule": "isolation"}}})
	}
	ports := object{}
	for _, port := range request.Ports {
		ports[port] = object{"northbound": true, "southbound": true, "claimed": true, "up": true}
	}
	return json.Marshal(object{"traces": traces, "ports": ports})
}
