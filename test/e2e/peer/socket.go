package main

import (
	"errors"
	"io"
	"net"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newSocket() *cobra.Command {
	return &cobra.Command{
		Use:   "socket PATH",
		Short: "Send the standard input to a unix socket and print what comes back",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return converse(args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func converse(path string, in io.Reader, out io.Writer) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	defer conn.Close()
	// A server that has read enough answers and closes, even if more input is on its way.
	if _, err := io.Copy(conn, in); err != nil && !errors.Is(err, unix.EPIPE) {
		return err
	}
	if err := conn.CloseWrite(); err != nil && !errors.Is(err, unix.ENOTCONN) {
		return err
	}
	_, err = io.Copy(out, conn)
	if errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}
