// The worker of the chat page: it shows reminders while the page is closed. It is one file at an address that stays.

type Reminder = { title: string; link: string | null; locale: string }
type Page = { url: string; focused: boolean; focus(): Promise<unknown> }
type WorkerScope = {
  addEventListener(name: string, handle: (event: any) => void): void
  registration: { showNotification(title: string, options: Record<string, unknown>): Promise<void> }
  clients: { matchAll(options: Record<string, unknown>): Promise<Page[]>; openWindow(url: string): Promise<unknown> }
}

const worker = self as unknown as WorkerScope
const TEXTS: Record<string, string> = { en: 'There is a new message for you.', zh: '您有一条新消息。' }

const addressOf = (link: string) => `/chat/${encodeURIComponent(link)}`

async function pagesOf(link: string): Promise<Page[]> {
  const pages = await worker.clients.matchAll({ type: 'window', includeUncontrolled: true })
  return pages.filter((each) => new URL(each.url).pathname === addressOf(link))
}

/** Show a reminder, unless the person looks at the conversation. */
async function remind({ title, link, locale }: Reminder) {
  if (!link || (await pagesOf(link)).some((each) => each.focused)) return
  const body = TEXTS[locale.split('-')[0]!] ?? TEXTS.en
  await worker.registration.showNotification(title || location.host, { body, tag: link, lang: locale, data: link })
}

async function openPage(link: string) {
  const [page] = await pagesOf(link)
  await (page ? page.focus() : worker.clients.openWindow(addressOf(link)))
}

worker.addEventListener('push', (event) => event.waitUntil(remind(event.data.json())))
worker.addEventListener('notificationclick', (event) => {
  event.notification.close()
  event.waitUntil(openPage(event.notification.data))
})
