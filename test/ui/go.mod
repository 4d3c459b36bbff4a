// Opens the page of kubectl weft ui in a real Chromium. It is a module of its own so that the packages that drive a browser are none of the product's.
module github.com/weft-network/weft/test/ui

go 1.26.3

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/gorilla/websocket v1.5.3
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
