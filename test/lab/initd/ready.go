package initd

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	readyTimeout = 90 * time.Second
	readyPoll    = 20 * time.Millisecond
)

// awaitReady waits until a daemon answers. A listening socket has no event that an outside process could wait for.
func awaitReady(ready string) error {
	scheme, address, ok := strings.Cut(ready, ":")
	if !ok {
		return nil
	}
	var last error
	for deadline := time.Now().Add(readyTimeout); time.Now().Before(deadline); time.Sleep(readyPoll) {
		if last = answers(scheme, address); last == nil {
			return nil
		}
	}
	return fmt.Errorf("not ready after %s: %w", readyTimeout, last)
}

func answers(scheme, address string) error {
	if scheme == "https" {
		return answersOK("https:" + address)
	}
	conn, err := net.DialTimeout(scheme, address, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// answersOK calls a health check. The answer is not secret, so it does not verify the certificate.
func answersOK(url string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
